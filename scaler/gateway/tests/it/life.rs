//! Start, changes of the file, and the end.

use hyper::StatusCode;

use crate::client::{ask, infer, send, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

#[tokio::test]
async fn a_gateway_that_stops_ends_its_requests_and_takes_no_more() {
    let instance = Instance::start("busy", Mode::Hold);
    let text = format!(
        "[timeouts]\nfarewell = 0\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let mut gateway = Gateway::start(&text).await;
    let running = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    let waiting = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    assert_eq!(gateway.page("/readyz").await, "ok\n");
    gateway.stop();
    while gateway.page("/readyz").await == "ok\n" {
        tokio::task::yield_now().await;
    }
    while tokio::net::TcpStream::connect(gateway.address)
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    instance.open();
    for answer in [running, waiting] {
        assert_eq!(answer.await.unwrap().status, StatusCode::OK);
    }
    gateway.ended().await;
}

#[tokio::test]
async fn a_wrong_file_changes_nothing_and_a_right_one_keeps_the_requests() {
    let (first, second) = (
        Instance::start("first", Mode::Hold),
        Instance::start("second", Mode::Answer),
    );
    let gateway = Gateway::start(&function("embed", "", &[first.address], 1)).await;
    let running = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    gateway
        .configure("[function.embed]\nslo = 0\n", |_| true)
        .await;
    let both =
        function("embed", "", &[second.address], 1) + &function("more", "", &[second.address], 1);
    gateway
        .configure(&both, |loads| {
            loads["functions"].as_array().unwrap().len() == 2
        })
        .await;
    assert_eq!(ask(gateway.address, "embed").await.body, "second");
    assert_eq!(ask(gateway.address, "more").await.body, "second");
    first.open();
    assert_eq!(
        running.await.unwrap().body,
        "first",
        "removed from the file, it still ends its request"
    );
}

#[tokio::test]
async fn a_removed_function_is_not_found_any_more() {
    let instance = Instance::start("one", Mode::Answer);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    gateway
        .configure("", |loads| {
            loads["functions"].as_array().unwrap().is_empty()
        })
        .await;
    let answer = whole(send(gateway.address, infer("embed")).await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_gateway_that_says_farewell_serves_and_ends_its_connections() {
    let instance = Instance::start("one", Mode::Answer);
    let text = format!(
        "[timeouts]\nfarewell = \"1h\"\n{}",
        function("embed", "", &[instance.address], 1)
    );
    let mut gateway = Gateway::start(&text).await;
    assert!(
        !ask(gateway.address, "embed")
            .await
            .headers
            .contains_key("connection")
    );
    gateway.stop();
    while gateway.page("/readyz").await == "ok\n" {
        tokio::task::yield_now().await;
    }
    let answer = ask(gateway.address, "embed").await;
    assert_eq!(
        (answer.body.as_str(), &answer.headers["connection"]),
        ("one", &"close".parse().unwrap())
    );
}
