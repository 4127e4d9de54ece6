//! The end of a replica.

use std::time::Duration;

use http::StatusCode;
use tetris_webhook::http::Limits;

use crate::served::api::Api;
use crate::served::client::{connect, plain};
use crate::served::https::{Running, limits, review};

#[tokio::test]
async fn requests_are_answered_until_the_end_and_connections_end_with_their_answer() {
    let limits = Limits {
        farewell: Duration::from_mins(1),
        ..limits()
    };
    let running = Running::ready(&Api::new(), limits).await;
    let mut client = connect(&running.api, running.https).await.unwrap();
    running.stop.send(()).unwrap();
    while plain(running.http).await.get("/readyz").await.0 == StatusCode::OK {
        tokio::task::yield_now().await;
    }
    let (status, reason) = plain(running.http).await.get("/readyz").await;
    assert_eq!(
        (status, reason.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
    );
    // API servers that have not heard of it still come, and are not kept.
    assert_eq!(client.post("/mutate", review()).await.0, StatusCode::OK);
    client.ended().await;
    let mut late = connect(&running.api, running.https).await.unwrap();
    assert_eq!(late.post("/mutate", review()).await.0, StatusCode::OK);
    running.ended.abort();
}

#[tokio::test]
async fn it_ends_although_clients_stay() {
    let running = Running::ready(&Api::new(), limits()).await;
    let mut idle = connect(&running.api, running.https).await.unwrap();
    assert_eq!(idle.post("/mutate", review()).await.0, StatusCode::OK);
    running.stop.send(()).unwrap();
    running.ended.await.unwrap();
    idle.ended().await;
    assert!(tokio::net::TcpStream::connect(running.https).await.is_err());
}
