//! Streams that end at any point: slots are free again, and each end counts as what it was.

use tetris_gateway::picker::wire::BodyMode;

use super::data_plane::{Stream, body, head, response, response_body};
use super::picking::address;
use crate::gateway::{Gateway, function};

const PATH: &str = "/functions/embed/x";

async fn start() -> Gateway {
    Gateway::start(&function("embed", "", &[address(1)], 1)).await
}

async fn idle(gateway: &Gateway) {
    gateway
        .eventually(|loads| {
            let of = &loads["functions"][0];
            of["in_flight"] == 0 && of["waiting"] == 0
        })
        .await;
}

#[tokio::test]
async fn a_stream_that_ends_at_any_point_leaves_no_request_and_no_slot() {
    let gateway = start().await;
    let duplex = BodyMode::FullDuplexStreamed;
    let parts = [
        (head(PATH, false), 0),
        (body("{", false), 0),
        (body("}", true), 3),
        (response("200", false), 1),
        (response_body("first", false), 1),
        (response_body("last", true), 1),
    ];
    for resets in [true, false] {
        for count in 0..=parts.len() {
            let mut stream = Stream::open(gateway.picker, duplex, duplex).await;
            for (part, answers) in parts.iter().take(count) {
                stream.send(part.clone()).await;
                for _ in 0..*answers {
                    stream.answer().await;
                }
            }
            if resets {
                drop(stream);
            } else {
                stream.half_close();
                assert_eq!(stream.next().await.unwrap(), None);
            }
            idle(&gateway).await;
        }
    }
    let mut next = Stream::open(gateway.picker, duplex, duplex).await;
    assert_eq!(next.picked(PATH).await, address(1));
    let metrics = gateway.page("/metrics").await;
    let left = "configuration=\"b1-p1\",outcome=\"left\"} 6";
    let served = "configuration=\"b1-p1\",outcome=\"served\"} 2";
    assert!(
        metrics.contains(left) && metrics.contains(served),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_waiting_request_whose_stream_ends_does_not_wait_any_more() {
    let gateway = start().await;
    let mut busy = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    busy.picked(PATH).await;
    for resets in [true, false] {
        let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
        stream.send(head(PATH, true)).await;
        gateway
            .eventually(|loads| loads["functions"][0]["waiting"] == 1)
            .await;
        if resets {
            drop(stream);
        } else {
            stream.half_close();
            assert_eq!(stream.next().await.unwrap(), None);
        }
        gateway
            .eventually(|loads| loads["functions"][0]["waiting"] == 0)
            .await;
    }
    assert_eq!(
        gateway.loads().await["functions"][0]["in_flight"],
        1,
        "the other's slot"
    );
}

#[tokio::test]
async fn an_answer_of_the_data_plane_itself_ends_the_wait() {
    let gateway = start().await;
    let mut busy = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    busy.picked(PATH).await;
    let duplex = BodyMode::FullDuplexStreamed;
    let mut waiting = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    waiting.send(head(PATH, true)).await;
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let mut sending = Stream::open(gateway.picker, duplex, duplex).await;
    sending.send(head(PATH, false)).await;
    sending.send(body("{", false)).await;
    let mut untold = Stream::open(gateway.picker, duplex, duplex).await;
    for stream in [&mut waiting, &mut sending, &mut untold] {
        let answer = stream.ask(response("504", true)).await;
        assert!(answer.dynamic_metadata.is_none(), "{answer:?}");
    }
    let loads = gateway.loads().await;
    assert_eq!(
        (
            &loads["functions"][0]["waiting"],
            &loads["functions"][0]["in_flight"]
        ),
        (&0.into(), &1.into())
    );
}

#[tokio::test]
async fn a_data_plane_that_shows_no_bodies_ends_a_response_with_the_stream() {
    let gateway = start().await;
    for (status, outcome) in [("200", "served"), ("503", "fault")] {
        let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
        stream.picked(PATH).await;
        stream.ask(response(status, false)).await;
        assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 1);
        stream.half_close();
        assert_eq!(stream.next().await.unwrap(), None);
        idle(&gateway).await;
        let line = format!("configuration=\"b1-p1\",outcome=\"{outcome}\"}} 1");
        let metrics = gateway.page("/metrics").await;
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn an_instance_that_keeps_failing_gets_no_more_requests() {
    let both = [address(1), address(2)];
    let gateway = Gateway::start(&function("embed", "", &both, 8)).await;
    for status in [
        "502", "503", "504", "502", "503", "504", "502", "503", "504", "502", "503",
    ] {
        let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
        let status = match stream.picked(PATH).await.port() {
            1 => status,
            _ => "500",
        };
        stream.ask(response(status, true)).await;
    }
    let metrics = gateway.page("/metrics").await;
    assert!(
        metrics.contains("function=\"embed\",state=\"ejected\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_gateway_that_stops_lets_picked_requests_end() {
    let text = function("embed", "", &[address(1)], 1);
    let mut gateway = Gateway::start(&format!("[timeouts]\nfarewell = 0\n{text}")).await;
    let mut running = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    running.picked(PATH).await;
    let mut waiting = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    waiting.send(head(PATH, true)).await;
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    gateway.stop();
    while tokio::net::TcpStream::connect(gateway.picker).await.is_ok() {
        tokio::task::yield_now().await;
    }
    running.ask(response("200", true)).await;
    let answer = waiting.answer().await;
    assert_eq!(super::data_plane::picked(&answer), Some(address(1)));
    for mut stream in [running, waiting] {
        stream.half_close();
        while let Ok(Some(_)) = stream.next().await {}
    }
    gateway.ended().await;
}
