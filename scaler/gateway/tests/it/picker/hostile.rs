//! Data planes that do not keep to the protocol.

use std::collections::HashMap;
use std::time::Duration;

use tetris_gateway::picker::wire::{
    Answer, BodyMode, HttpHeaders, HttpTrailers, Kind, Metadata, Part, ProcessingRequest, Struct,
    Value,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use super::data_plane::{
    Stream, body, client, head, head_with, headers, picked, response, response_body,
    response_trailers,
};
use super::picking::address;
use crate::gateway::{Gateway, function};

const PATH: &str = "/functions/embed/x";

async fn start(more: &str) -> Gateway {
    let function = function("embed", "", &[address(1)], 1);
    Gateway::start(&format!("{more}\n{function}")).await
}

/// Reads answers until the stream breaks off.
async fn broken(stream: &mut Stream) -> Code {
    loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => return Code::Ok,
            Err(status) => return status.code(),
        }
    }
}

async fn idle(gateway: &Gateway) {
    gateway
        .eventually(|loads| {
            let of = &loads["functions"][0];
            of["in_flight"] == 0 && of["waiting"] == 0
        })
        .await;
    let mut next = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    assert_eq!(next.picked(PATH).await, address(1));
    next.ask(response("200", true)).await;
}

#[tokio::test]
async fn messages_out_of_order_break_the_stream_off() {
    let gateway = start("").await;
    let (duplex, none) = (BodyMode::FullDuplexStreamed, BodyMode::None);
    let trailers = || Part::RequestTrailers(HttpTrailers::default());
    for (mode, parts) in [
        (none, vec![body("{}", true)]),
        (none, vec![trailers()]),
        (none, vec![head(PATH, true), head(PATH, true)]),
        (none, vec![head(PATH, true), body("{}", true)]),
        (none, vec![head(PATH, true), trailers()]),
        (
            none,
            vec![
                head(PATH, true),
                response("200", false),
                response("200", false),
            ],
        ),
        (
            none,
            vec![
                head(PATH, true),
                response("200", true),
                response_body("x", true),
            ],
        ),
        (
            none,
            vec![head(PATH, true), response("200", true), response_trailers()],
        ),
        (duplex, vec![head(PATH, false), head(PATH, false)]),
        (
            duplex,
            vec![head(PATH, false), body("{}", true), body("{}", true)],
        ),
        (
            duplex,
            vec![head(PATH, false), body("{}", false), trailers(), trailers()],
        ),
        (
            BodyMode::Buffered,
            vec![head(PATH, false), head(PATH, false)],
        ),
        (
            BodyMode::Streamed,
            vec![head(PATH, false), body("{}", true), body("{}", true)],
        ),
    ] {
        let mut stream = Stream::open(gateway.picker, mode, duplex).await;
        for part in parts.clone() {
            stream.send(part).await;
        }
        assert_eq!(
            broken(&mut stream).await,
            Code::InvalidArgument,
            "{parts:?}"
        );
        idle(&gateway).await;
    }
}

#[tokio::test]
async fn messages_without_a_part_and_modes_without_a_pick_are_refused() {
    let gateway = start("").await;
    let observing = ProcessingRequest {
        request: Some(head(PATH, true)),
        observability_mode: true,
        ..ProcessingRequest::default()
    };
    for (message, mode, code) in [
        (
            ProcessingRequest::default(),
            BodyMode::None,
            Code::InvalidArgument,
        ),
        (observing, BodyMode::None, Code::FailedPrecondition),
        (
            ProcessingRequest {
                request: Some(head(PATH, false)),
                ..ProcessingRequest::default()
            },
            BodyMode::Grpc,
            Code::FailedPrecondition,
        ),
    ] {
        let mut stream = Stream::open(gateway.picker, mode, mode).await;
        stream.send_message(message).await;
        assert_eq!(broken(&mut stream).await, code);
        idle(&gateway).await;
    }
}

#[tokio::test]
async fn a_head_beyond_the_limit_of_messages_breaks_the_stream_off() {
    let gateway = start("[limits]\nbody = \"1KiB\"").await;
    let large = "x".repeat(2 << 20);
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    stream.send(head_with(PATH, true, &[("a", &large)])).await;
    assert_eq!(broken(&mut stream).await, Code::OutOfRange);
    idle(&gateway).await;
    // Also once it has a slot.
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::Streamed).await;
    stream.picked(PATH).await;
    stream.send(response_body(&large, false)).await;
    assert_eq!(broken(&mut stream).await, Code::OutOfRange);
    idle(&gateway).await;
}

#[tokio::test]
async fn metadata_of_any_depth_is_read_or_refused() {
    let gateway = start("").await;
    let mut value = Value::text("x");
    for _ in 0..1_000 {
        let fields = HashMap::from([("a".to_owned(), value)]);
        let kind = Some(Kind::Object(Struct { fields }));
        value = Value { kind };
    }
    let fields = HashMap::from([("a".to_owned(), value)]);
    let metadata = Metadata {
        filter_metadata: HashMap::from([("envoy.lb".to_owned(), Struct { fields })]),
    };
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    stream.send_with(head(PATH, true), Some(metadata)).await;
    assert_ne!(broken(&mut stream).await, Code::Ok);
    idle(&gateway).await;
}

#[tokio::test]
async fn streams_beyond_the_limit_are_refused_and_others_go_on() {
    let gateway = start("[limits]\nconnections = 2").await;
    let client = client(gateway.picker).await;
    let mut first = Stream::over(client.clone()).await.unwrap();
    first.send(head(PATH, true)).await;
    assert_eq!(picked(&first.answer().await), Some(address(1)));
    let second = Stream::over(client.clone()).await.unwrap();
    let Err(status) = Stream::over(client.clone()).await else {
        panic!("expected a refusal");
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(second);
    first.ask(response("200", true)).await;
}

#[tokio::test]
async fn a_message_of_empty_headers_is_not_decoded() {
    let gateway = start("").await;
    let many = |count| headers(&vec![("", ""); count]);
    // 2 bytes each on the wire, and 80 in memory.
    for count in [1_025, 20_000] {
        let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
        let head = HttpHeaders {
            headers: Some(many(count)),
            end_of_stream: true,
        };
        stream.send(Part::RequestHeaders(head)).await;
        assert_eq!(broken(&mut stream).await, Code::InvalidArgument, "{count}");
        idle(&gateway).await;
    }
    // Where bodies are allowed, too.
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::Streamed).await;
    stream.picked(PATH).await;
    let head = HttpHeaders {
        headers: Some(many(4_000_000)),
        end_of_stream: false,
    };
    stream.send(Part::ResponseHeaders(head)).await;
    assert_eq!(broken(&mut stream).await, Code::InvalidArgument);
    idle(&gateway).await;
}

#[tokio::test]
async fn heads_have_the_limits_of_the_proxy() {
    let gateway = start("[limits]\nheaders = 10\nhead = \"8KiB\"").await;
    let many: Vec<_> = (0..11).map(|number| (format!("x-{number}"), "1")).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (&**name, *value)).collect();
    let long = "x".repeat(8 << 10);
    for (more, accepted) in [
        (&many[..10], true),
        (&many[..], false),
        (&[("x", &*long)], false),
    ] {
        let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
        let head = head_with(PATH, true, more);
        if accepted {
            assert_eq!(picked(&stream.ask(head).await), Some(address(1)));
            stream.ask(response("200", true)).await;
        } else {
            let refused = stream.refused(head, None).await;
            assert_eq!(refused.status.unwrap().code, 431);
        }
    }
    idle(&gateway).await;
}

#[tokio::test]
async fn a_data_plane_that_says_nothing_or_reads_nothing_holds_nothing_for_long() {
    let times = "[timeouts]\nhead = \"300ms\"\nread = \"300ms\"\nrequest = \"1s\"";
    let gateway = start(times).await;
    // A stream without a message.
    let mut silent = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    assert_eq!(broken(&mut silent).await, Code::DeadlineExceeded);
    // A response that never comes.
    let mut picked = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    picked.picked(PATH).await;
    assert_eq!(broken(&mut picked).await, Code::DeadlineExceeded);
    idle(&gateway).await;
    // A connection without a request.
    let mut stream = TcpStream::connect(gateway.picker).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut rest = Vec::new();
    drop(stream.read_to_end(&mut rest).await);
}

#[tokio::test]
async fn a_body_that_comes_in_drips_is_refused_in_the_time_of_the_proxy() {
    let gateway = start("[timeouts]\nbody = \"500ms\"").await;
    let duplex = BodyMode::FullDuplexStreamed;
    let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
    stream.send(head(PATH, false)).await;
    // Each comes within the time of one pause.
    let mut dripped = 0;
    let refused = loop {
        stream.send(body("x", false)).await;
        dripped += 1;
        let wait = Duration::from_millis(100);
        if let Ok(answer) = tokio::time::timeout(wait, stream.next()).await {
            break answer.unwrap().unwrap();
        }
        assert!(dripped < 100, "drips are taken for ever");
    };
    let Some(Answer::Immediate(refused)) = refused.response else {
        panic!("expected a refusal, found {refused:?}");
    };
    assert_eq!(refused.status.unwrap().code, 408);
    idle(&gateway).await;
}

#[tokio::test]
async fn connections_of_one_address_are_limited() {
    let gateway = start("[limits]\nconnections_per_client = 3").await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await);
    }
    let mut more = TcpStream::connect(gateway.picker).await.unwrap();
    assert_eq!(
        more.read(&mut [0]).await.unwrap_or(0),
        0,
        "it is closed at once"
    );
    drop(open);
    idle(&gateway).await;
}

#[tokio::test]
async fn messages_on_their_way_are_charged() {
    let limits = "[limits]\nbody = \"256KiB\"\nbodies = \"1MiB\"";
    let gateway = start(limits).await;
    let duplex = BodyMode::FullDuplexStreamed;
    let mut streams = Vec::new();
    let large = "x".repeat(200 << 10);
    let mut refused = 0;
    for _ in 0..8 {
        let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
        stream.send(head(PATH, false)).await;
        stream.send(body(&large, false)).await;
        streams.push(stream);
    }
    for stream in &mut streams {
        let wait = Duration::from_secs(2);
        match tokio::time::timeout(wait, stream.next()).await {
            Err(_) => {}
            Ok(Err(status)) => {
                assert_eq!(status.code(), Code::ResourceExhausted);
                refused += 1;
            }
            Ok(Ok(answer)) => {
                let answer = answer.unwrap().response;
                assert!(matches!(answer, Some(Answer::Immediate(_))), "{answer:?}");
                refused += 1;
            }
        }
    }
    // Half of the budget is for two of them.
    assert!(refused >= 6, "{refused} of 8");
}
