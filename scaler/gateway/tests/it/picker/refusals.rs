//! Requests that get no instance.

use tetris_gateway::picker::wire::{BodyMode, ImmediateResponse, Part};

use super::data_plane::{Stream, head, head_with};
use super::picking::address;
use crate::gateway::{Gateway, function};

async fn refused(gateway: &Gateway, part: Part) -> ImmediateResponse {
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    stream.refused(part, None).await
}

fn header(response: &ImmediateResponse, name: &str) -> Option<String> {
    let all = &response.headers.as_ref()?.set_headers;
    let headers = all.iter().filter_map(|entry| entry.header.as_ref());
    let value = headers
        .filter(|header| header.key == name)
        .map(|header| &header.raw_value);
    value
        .last()
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn code(response: &ImmediateResponse) -> i32 {
    response.status.unwrap().code
}

#[tokio::test]
async fn a_full_queue_and_a_long_wait_are_told_with_a_time_to_come_back() {
    let gateway = Gateway::start(&function("embed", "queue = 1", &[address(1)], 1)).await;
    let mut busy = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    busy.picked("/functions/embed/").await;
    let short = [("tetris-wait-ms", "150")];
    let expired = refused(&gateway, head_with("/functions/embed/", true, &short)).await;
    assert_eq!(
        (code(&expired), header(&expired, "retry-after").as_deref()),
        (503, Some("1"))
    );
    let mut waiting = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    waiting.send(head("/functions/embed/", true)).await;
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let full = refused(&gateway, head("/functions/embed/", true)).await;
    assert_eq!(
        (code(&full), header(&full, "retry-after").as_deref()),
        (429, Some("1"))
    );
    let metrics = gateway.page("/metrics").await;
    for line in [
        "tetris_gateway_picks_refused_total{reason=\"expired\"} 1",
        "tetris_gateway_picks_refused_total{reason=\"full\"} 1",
        "tetris_gateway_refused_total{namespace=\"\",function=\"embed\",reason=\"full\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn refusals_have_the_form_of_the_clients_protocol() {
    let gateway = Gateway::start(&function("embed", "", &[address(1)], 1)).await;
    let missing = refused(&gateway, head("/functions/other/v1/models", true)).await;
    assert_eq!(code(&missing), 404);
    let error: serde_json::Value = serde_json::from_slice(&missing.body).unwrap();
    assert_eq!(error["error"]["code"], "not-found");
    assert_eq!(missing.details, "tetris-not-found");
    let grpc = [("content-type", "application/grpc")];
    let missing = refused(&gateway, head_with("/inference.Service/Infer", true, &grpc)).await;
    assert_eq!(
        (code(&missing), missing.grpc_status.unwrap().status),
        (404, 5)
    );
    assert!(
        missing.body.starts_with(b"no function for "),
        "{:?}",
        missing.body
    );
    let wrong = [("tetris-wait-ms", "soon")];
    let bad = refused(&gateway, head_with("/functions/embed/", true, &wrong)).await;
    assert_eq!(
        (code(&bad), header(&bad, "content-type").as_deref()),
        (400, Some("application/json"))
    );
}
