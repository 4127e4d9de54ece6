//! Instances that fail.

use hyper::StatusCode;

use crate::client::{ask, infer, send};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};
use crate::port::Port;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[tokio::test]
async fn a_request_that_reaches_no_instance_goes_to_another() {
    let (gone, here) = (Port::take(), Instance::start("here", Mode::Answer));
    let both = [gone.address, here.address];
    let gateway = Gateway::start(&function("embed", "", &both, 4)).await;
    for _ in 0..20 {
        assert_eq!(ask(gateway.address, "embed").await.body, "here");
    }
    let metrics = gateway.page("/metrics").await;
    assert!(
        metrics.contains("tetris_gateway_unreachable_total{namespace=\"\",function=\"embed\"}"),
        "{metrics}"
    );
    assert!(metrics.contains("state=\"ejected\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_request_waits_while_its_only_instance_restarts() {
    let first = Instance::start("first", Mode::Answer);
    let address = first.address;
    let gateway = Gateway::start(&function("embed", "", &[address], 1)).await;
    assert_eq!(ask(gateway.address, "embed").await.body, "first");
    let port = first.kill().await;
    let waiting = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let _second = Instance::on(port, "second", Mode::Answer);
    assert_eq!(waiting.await.unwrap().body, "second");
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    let (breaks, other) = (
        Instance::start("breaks", Mode::Break),
        Instance::start("other", Mode::Answer),
    );
    let gateway = Gateway::start(&function("embed", "", &[breaks.address, other.address], 1)).await;
    let answers = [
        ask(gateway.address, "embed").await,
        ask(gateway.address, "embed").await,
    ];
    let mut statuses = answers.map(|answer| answer.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 502]);
    assert_eq!((breaks.seen().len(), other.seen().len()), (1, 1));
}

#[tokio::test]
async fn an_instance_that_fails_again_and_again_gets_no_requests_for_a_time() {
    let (sick, well) = (
        Instance::start("sick", Mode::Unavailable),
        Instance::start("well", Mode::Answer),
    );
    let gateway = Gateway::start(&function("embed", "", &[sick.address, well.address], 1)).await;
    let mut unavailable = 0;
    for _ in 0..30 {
        let answer = ask(gateway.address, "embed").await;
        unavailable += usize::from(answer.status == StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(sick.seen().len(), unavailable, "its answers are passed on");
    assert!(
        (1..=4).contains(&unavailable),
        "three in a row, and one on probation: {unavailable}"
    );
}

#[tokio::test]
async fn a_response_that_breaks_off_is_broken_for_the_client_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (breaks, broken) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let read = stream.read(&mut [0; 4_096]).await.unwrap();
        assert!(read > 0, "the answer comes after the request");
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nfirst";
        stream.write_all(head).await.unwrap();
        broken.await.unwrap();
    });
    let gateway = Gateway::start(&function("chat", "", &[address], 1)).await;
    let response = send(gateway.address, infer("chat")).await.unwrap();
    let mut body = response.into_body();
    assert!(body.frame().await.unwrap().is_ok());
    breaks.send(()).unwrap();
    assert!(
        body.collect().await.is_err(),
        "a truncated answer must not look whole"
    );
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
        .await;
    assert!(
        gateway
            .page("/metrics")
            .await
            .contains("outcome=\"broken\"} 1")
    );
}

#[tokio::test]
async fn an_instance_that_hangs_is_given_up_after_the_timeout() {
    let hangs = Instance::start("hangs", Mode::Hold);
    let text = format!(
        "[timeouts]\nresponse = \"200ms\"\n{}",
        function("embed", "", &[hangs.address], 1)
    );
    let gateway = Gateway::start(&text).await;
    let answer = ask(gateway.address, "embed").await;
    assert_eq!(answer.status, StatusCode::GATEWAY_TIMEOUT);
    assert!(
        answer.body.contains("sent no response within 200ms"),
        "{}",
        answer.body
    );
}
