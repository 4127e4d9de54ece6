//! Data planes that do not send or read: what they hold is free in time.

use std::time::Duration;

use tetris_gateway::picker::wire::BodyMode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tonic::Code;

use super::data_plane::{Stream, body, head, response, response_body};
use super::picking::address;
use crate::gateway::{Gateway, function};

const PATH: &str = "/functions/embed/x";
/// Time after which a test has failed.
const DEADLINE: Duration = Duration::from_secs(30);
const DUPLEX: BodyMode = BodyMode::FullDuplexStreamed;

async fn start(more: &str) -> Gateway {
    let function = function("embed", "", &[address(1)], 1);
    Gateway::start(&format!("{more}\n{function}")).await
}

async fn open(gateway: &Gateway, mode: BodyMode) -> Stream {
    Stream::open(gateway.picker, mode, mode).await
}

async fn until_free(gateway: &Gateway) {
    let free = gateway.eventually(|loads| loads["functions"][0]["in_flight"] == 0);
    timeout(DEADLINE, free).await.expect("the slot is free");
}

#[tokio::test]
async fn a_body_that_drips_in_small_parts_is_too_slow() {
    let gateway = start("[timeouts]\nbody = \"500ms\"").await;
    let mut stream = open(&gateway, DUPLEX).await;
    stream.send(head(PATH, false)).await;
    for _ in 0..60 {
        stream.send(body("x", false)).await;
        sleep(Duration::from_millis(50)).await;
    }
    // Whole now, if it has not been refused.
    let refused = stream.refused(body("x", true), None).await;
    assert_eq!(refused.status.unwrap().code, 408);
}

#[tokio::test]
async fn a_body_that_the_data_plane_never_shows_is_too_slow() {
    let limits = "[limits]\nbody = \"1KiB\"\nbodies = \"8KiB\"\n[timeouts]\nbody = \"200ms\"";
    let gateway = start(limits).await;
    let mut stream = open(&gateway, BodyMode::Buffered).await;
    stream.ask(head(PATH, false)).await;
    let answer = stream.answer().await;
    let Some(tetris_gateway::picker::wire::Answer::Immediate(refused)) = answer.response else {
        panic!("expected a refusal, found {answer:?}");
    };
    assert_eq!(refused.status.unwrap().code, 408);
}

#[tokio::test]
async fn a_stream_without_a_head_ends_in_time() {
    let gateway = start("[timeouts]\nhead = \"200ms\"").await;
    let mut stream = open(&gateway, DUPLEX).await;
    assert_eq!(
        stream.next().await.unwrap_err().code(),
        Code::DeadlineExceeded
    );
}

#[tokio::test]
async fn a_response_that_does_not_end_frees_the_slot_in_time() {
    let gateway = start("[timeouts]\nrequest = \"300ms\"").await;
    let mut stream = open(&gateway, DUPLEX).await;
    stream.picked(PATH).await;
    stream.ask(response("200", false)).await;
    assert_eq!(
        stream.next().await.unwrap_err().code(),
        Code::DeadlineExceeded
    );
    until_free(&gateway).await;
}

#[tokio::test]
async fn a_data_plane_that_reads_no_answers_frees_the_slot_in_time() {
    let gateway = start("[timeouts]\nread = \"300ms\"").await;
    let mut stream = open(&gateway, DUPLEX).await;
    stream.picked(PATH).await;
    stream.ask(response("200", false)).await;
    let part = "x".repeat(32 << 10);
    let sending = async {
        for _ in 0..64 {
            stream.send(response_body(&part, false)).await;
        }
    };
    // More than fits between the two, so it waits until the stream has ended.
    drop(timeout(DEADLINE, sending).await);
    until_free(&gateway).await;
    let mut next = open(&gateway, DUPLEX).await;
    assert_eq!(next.picked(PATH).await, address(1));
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    timeout(DEADLINE, stream.read_to_end(&mut bytes))
        .await
        .is_ok()
}

#[tokio::test]
async fn connections_without_a_request_end_in_time() {
    let gateway = start("[timeouts]\nhead = \"300ms\"").await;
    for begin in [
        &b""[..],
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ] {
        let mut idle = TcpStream::connect(gateway.picker).await.unwrap();
        idle.write_all(begin).await.unwrap();
        assert!(is_closed(&mut idle).await, "{begin:?}");
    }
}

#[tokio::test]
async fn one_address_has_a_limit_of_connections() {
    let gateway = start("[limits]\nconnections_per_client = 3").await;
    let mut open: Vec<_> = Vec::new();
    for _ in 0..3 {
        open.push(TcpStream::connect(gateway.picker).await.unwrap());
    }
    let mut beyond = TcpStream::connect(gateway.picker).await.unwrap();
    assert!(is_closed(&mut beyond).await);
    open.pop();
    let picked = async {
        // Its place is free a moment later.
        loop {
            if let Ok(mut stream) = Stream::try_open(gateway.picker).await {
                return stream.picked(PATH).await;
            }
        }
    };
    assert_eq!(timeout(DEADLINE, picked).await.unwrap(), address(1));
}
