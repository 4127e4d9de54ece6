//! Bodies of requests and responses in every mode.

use tetris_gateway::picker::wire::{Answer, BodyMode, HttpTrailers, Part};

use super::data_plane::{
    Stream, body, carried, head, headers, part, picked, response, response_body, response_trailers,
};
use super::picking::address;
use crate::gateway::{Gateway, function};

const PATH: &str = "/functions/embed/v1/embeddings";

async fn gateway(more: &str) -> Gateway {
    let function = function("embed", "", &[address(1)], 1);
    Gateway::start(&format!("{more}\n{function}")).await
}

#[tokio::test]
async fn a_streamed_request_takes_a_slot_once_it_is_whole_and_goes_on_as_it_came() {
    let gateway = gateway("").await;
    let duplex = BodyMode::FullDuplexStreamed;
    let told = Stream::open(gateway.picker, duplex, duplex).await;
    // Data planes of other makers may tell no modes.
    let untold = Stream::try_open(gateway.picker).await.unwrap();
    for (count, mut stream) in (1..).zip([told, untold]) {
        stream.send(head(PATH, false)).await;
        stream.send(body("{\"a\"", false)).await;
        gateway.arrived("embed", count).await;
        assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 0);
        let first = stream.ask(body(":1}", true)).await;
        assert!(matches!(first.response, Some(Answer::RequestHeaders(_))));
        assert_eq!(picked(&first), Some(address(1)));
        assert_eq!(carried(&stream.answer().await), Some(part("{\"a\"", false)));
        assert_eq!(carried(&stream.answer().await), Some(part(":1}", true)));
        stream.ask(response("200", true)).await;
    }
}

#[tokio::test]
async fn trailers_end_a_streamed_request() {
    let gateway = gateway("").await;
    let duplex = BodyMode::FullDuplexStreamed;
    let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
    stream.send(head(PATH, false)).await;
    stream.send(body("{}", false)).await;
    let trailers = Some(headers(&[("a", "b")]));
    let first = stream
        .ask(Part::RequestTrailers(HttpTrailers { trailers }))
        .await;
    assert_eq!(picked(&first), Some(address(1)));
    assert_eq!(carried(&stream.answer().await), Some(part("{}", false)));
    let last = stream.answer().await;
    assert!(
        matches!(last.response, Some(Answer::RequestTrailers(_))),
        "{last:?}"
    );
}

#[tokio::test]
async fn a_buffered_request_takes_a_slot_with_its_body() {
    let gateway = gateway("").await;
    let mut stream = Stream::open(gateway.picker, BodyMode::Buffered, BodyMode::None).await;
    let first = stream.ask(head(PATH, false)).await;
    assert!(matches!(first.response, Some(Answer::RequestHeaders(_))));
    assert_eq!(picked(&first), None);
    assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 0);
    let second = stream.ask(body("{}", true)).await;
    assert_eq!(picked(&second), Some(address(1)));
    assert_eq!(carried(&second), None, "the data plane has the body");
}

#[tokio::test]
async fn a_buffered_request_of_trailers_alone_is_picked_for_by_metadata() {
    let gateway = gateway("").await;
    let mut stream = Stream::open(gateway.picker, BodyMode::Buffered, BodyMode::None).await;
    stream.ask(head(PATH, false)).await;
    let answer = stream
        .ask(Part::RequestTrailers(HttpTrailers::default()))
        .await;
    assert_eq!(picked(&answer), Some(address(1)));
}

#[tokio::test]
async fn modes_that_wait_for_the_head_get_the_pick_with_it() {
    let gateway = gateway("").await;
    for mode in [
        BodyMode::None,
        BodyMode::Streamed,
        BodyMode::BufferedPartial,
    ] {
        let mut stream = Stream::open(gateway.picker, mode, BodyMode::Streamed).await;
        let first = stream.ask(head(PATH, false)).await;
        assert_eq!(picked(&first), Some(address(1)), "{mode:?}");
        if mode != BodyMode::None {
            let second = stream.ask(body("{}", true)).await;
            assert_eq!(
                (picked(&second), carried(&second)),
                (None, None),
                "{mode:?}"
            );
        }
        stream.ask(response("200", false)).await;
        let streamed = stream.ask(response_body("out", true)).await;
        assert_eq!(carried(&streamed), None, "{mode:?}");
        gateway
            .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
            .await;
    }
}

#[tokio::test]
async fn parts_of_a_response_pass_one_by_one_and_the_last_frees_the_slot() {
    let gateway = gateway("").await;
    let duplex = BodyMode::FullDuplexStreamed;
    for trailers in [false, true] {
        let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
        stream.picked(PATH).await;
        stream.ask(response("200", false)).await;
        for text in ["first", "second"] {
            let answer = stream.ask(response_body(text, false)).await;
            assert_eq!(carried(&answer), Some(part(text, false)));
            assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 1);
        }
        let (last, expected) = if trailers {
            (response_trailers(), None)
        } else {
            (response_body("", true), Some(part("", true)))
        };
        let answer = stream.ask(last).await;
        if trailers {
            assert!(matches!(answer.response, Some(Answer::ResponseTrailers(_))));
        } else {
            assert_eq!(carried(&answer), expected);
        }
        assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 0);
    }
}

#[tokio::test]
async fn bodies_have_the_limits_of_the_proxy() {
    let limits = "[limits]\nbody = \"1KiB\"\nbodies = \"8KiB\"\n[timeouts]\nbody = \"100ms\"";
    let gateway = gateway(limits).await;
    let duplex = BodyMode::FullDuplexStreamed;
    let large = "x".repeat(1_025);
    for (sent, code) in [(body(&large, false), 413), (body("{", false), 408)] {
        let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
        stream.send(head(PATH, false)).await;
        let refused = stream.refused(sent, None).await;
        assert_eq!(refused.status.unwrap().code, code);
    }
    let few = "[limits]\nbody = \"8KiB\"\nbodies = \"16KiB\"\n";
    let gateway = self::gateway(few).await;
    let many = "x".repeat(5_000);
    let mut first = Stream::open(gateway.picker, duplex, duplex).await;
    first.send(head(PATH, false)).await;
    first.send(body(&many, false)).await;
    let line = "tetris_gateway_memory_bytes{budget=\"bodies\"} 8192";
    while !gateway.page("/metrics").await.contains(line) {
        tokio::task::yield_now().await;
    }
    let mut second = Stream::open(gateway.picker, duplex, duplex).await;
    second.send(head(PATH, false)).await;
    let refused = second.refused(body(&many, false), None).await;
    assert_eq!(refused.status.unwrap().code, 503);
}
