//! Instances that are picked.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tetris_gateway::picker::wire::BodyMode;

use super::data_plane::{Stream, changes, head, head_with, picked, response, served, set, subset};
use crate::gateway::{Gateway, function};

pub fn address(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

async fn open(gateway: &Gateway) -> Stream {
    Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await
}

#[tokio::test]
async fn an_instance_is_named_in_header_and_metadata_and_ends_with_the_response() {
    let gateway = Gateway::start(&function(
        "embed",
        "hosts = [\"gateway\"]",
        &[address(1)],
        1,
    ))
    .await;
    let mut stream = open(&gateway).await;
    let answer = stream.ask(head("/v1/embeddings", true)).await;
    assert_eq!(picked(&answer), Some(address(1)));
    let changes = changes(&answer).unwrap();
    assert!(changes.clear_route_cache);
    assert_eq!(set(&answer, ":path"), None, "the path stays");
    assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 1);
    stream.ask(response("200", true)).await;
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
        .await;
    let metrics = gateway.page("/metrics").await;
    for line in [
        "tetris_gateway_picks_total{namespace=\"\",function=\"embed\"} 1",
        "tetris_gateway_requests_total{namespace=\"\",function=\"embed\"} 1",
        "configuration=\"b1-p1\",outcome=\"served\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn the_prefix_of_a_function_is_cut_off_without_another_choice_of_the_route() {
    let gateway = Gateway::start(&function("embed", "", &[address(1)], 1)).await;
    let wait = [("tetris-wait-ms", "100")];
    let answer = open(&gateway)
        .await
        .ask(head_with("/functions/embed/v1/embeddings?a=1", true, &wait))
        .await;
    assert_eq!(picked(&answer), Some(address(1)));
    assert_eq!(set(&answer, ":path").unwrap(), "/v1/embeddings?a=1");
    let changes = changes(&answer).unwrap();
    assert!(!changes.clear_route_cache);
    let removed = &changes.header_mutation.as_ref().unwrap().remove_headers;
    assert_eq!(removed, &["tetris-wait-ms"]);
}

#[tokio::test]
async fn instances_are_picked_by_their_capacity_and_further_requests_wait() {
    let text = function("embed", "", &[address(1)], 1)
        + "[[function.embed.instance]]\naddress = \"127.0.0.1:2\"\nbatch = 2\nconcurrency = 3\nlatency = \"100ms\"\n";
    let gateway = Gateway::start(&text).await;
    let mut streams = Vec::new();
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for _ in 0..7 {
        let mut stream = open(&gateway).await;
        let port = stream.picked("/functions/embed/").await.port();
        *counts.entry(port).or_default() += 1;
        streams.push((port, stream));
    }
    assert_eq!(counts, BTreeMap::from([(1, 1), (2, 6)]));
    let mut waiting = open(&gateway).await;
    waiting.send(head("/functions/embed/", true)).await;
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let (_, small) = streams.iter_mut().find(|(port, _)| *port == 1).unwrap();
    small.ask(response("200", true)).await;
    assert_eq!(picked(&waiting.answer().await), Some(address(1)));
}

#[tokio::test]
async fn a_subset_is_kept_to_while_others_have_room() {
    let both = [address(1), address(2)];
    let gateway = Gateway::start(&function("embed", "", &both, 1)).await;
    let mut first = open(&gateway).await;
    let only = Some(subset(&[address(2), address(3)]));
    first
        .send_with(head("/functions/embed/", true), only.clone())
        .await;
    assert_eq!(picked(&first.answer().await), Some(address(2)));
    let mut second = open(&gateway).await;
    second
        .send_with(head("/functions/embed/", true), only)
        .await;
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let mut third = open(&gateway).await;
    assert_eq!(
        third.picked("/functions/embed/").await,
        address(1),
        "it need not wait"
    );
    first.ask(response("200", true)).await;
    assert_eq!(picked(&second.answer().await), Some(address(2)));
}

#[tokio::test]
async fn a_subset_without_a_known_instance_is_unavailable() {
    let gateway = Gateway::start(&function("embed", "", &[address(1)], 1)).await;
    for hint in [subset(&[]), subset(&[address(9)])] {
        let refused = open(&gateway)
            .await
            .refused(head("/functions/embed/", true), Some(hint))
            .await;
        assert_eq!(refused.status.unwrap().code, 503);
    }
    let metrics = gateway.page("/metrics").await;
    assert!(
        metrics.contains("tetris_gateway_picks_refused_total{reason=\"not-eligible\"} 2"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_request_that_was_served_elsewhere_says_nothing_of_the_picked_instance() {
    let gateway = Gateway::start(&function("embed", "", &[address(1)], 1)).await;
    for (by, outcome) in [(address(1), "fault"), (address(2), "elsewhere")] {
        let mut stream = open(&gateway).await;
        stream.picked("/functions/embed/").await;
        stream
            .send_with(response("503", true), Some(served(by)))
            .await;
        stream.answer().await;
        gateway
            .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
            .await;
        let metrics = gateway.page("/metrics").await;
        let line = format!("configuration=\"b1-p1\",outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let metrics = gateway.page("/metrics").await;
    let line = "tetris_gateway_picks_elsewhere_total{namespace=\"\",function=\"embed\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}
