//! Data planes that do not keep to the protocol.

use std::collections::HashMap;

use tetris_gateway::picker::wire::{
    BodyMode, HttpTrailers, Kind, Metadata, Part, ProcessingRequest, Struct, Value,
};
use tonic::Code;

use super::data_plane::{
    Stream, body, head, head_with, response, response_body, response_trailers,
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
async fn a_message_beyond_the_limit_is_refused_before_it_is_read() {
    let gateway = start("[limits]\nbody = \"1KiB\"").await;
    let large = "x".repeat(70 << 10);
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    let refused = stream.refused(head_with(PATH, true, &[("a", &large)]), None);
    assert_eq!(refused.await.status.unwrap().code, 431);
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
async fn streams_beyond_the_limit_of_one_address_are_refused_and_others_go_on() {
    let gateway = start("[limits]\nconnections = 4").await;
    let mut first = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    first.picked(PATH).await;
    let second = Stream::try_open(gateway.picker).await.unwrap();
    let Err(status) = Stream::try_open(gateway.picker).await else {
        panic!("expected a refusal");
    };
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(second);
    first.ask(response("200", true)).await;
}
