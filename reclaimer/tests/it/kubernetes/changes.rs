//! Changes of pods, and the set after them.

use serde_json::{Value, json};

use crate::kubernetes::server::{pod, with};
use crate::kubernetes::watched::{Watched, pods};

const PHASE: &str = "/status/phase";
const NODE_NAME: &str = "/spec/nodeName";
const MODELS: &str = "/metadata/annotations/tetris.dev~1models";

#[tokio::test(start_paused = true)]
async fn a_list_makes_the_set_current_at_once() {
    let mut watched = Watched::start();
    assert_eq!(watched.unchanged(), ("unknown", pods([])));
    let _watch = watched
        .server
        .sync(&[pod("a", "bert, gpt2"), pod("b", "llama")])
        .await;
    let expected = pods([("a", "bert gpt2"), ("b", "llama")]);
    assert_eq!(watched.next().await, ("current", expected));
    watched.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_is_current_too() {
    let mut watched = Watched::start();
    let _watch = watched.server.sync(&[]).await;
    assert_eq!(watched.next().await, ("current", pods([])));
}

#[tokio::test(start_paused = true)]
async fn only_a_complete_list_of_several_pages_is_published() {
    let mut watched = Watched::start();
    watched
        .server
        .next_list()
        .await
        .page(&[pod("a", "bert")], "next");
    let second = watched.server.next_list().await;
    assert_eq!(second.parameter("continue").as_deref(), Some("next"));
    assert_eq!(watched.unchanged(), ("unknown", pods([])));
    second.pods(&[pod("b", "gpt2")]);
    let expected = pods([("a", "bert"), ("b", "gpt2")]);
    assert_eq!(watched.next().await, ("current", expected));
}

#[tokio::test(start_paused = true)]
async fn pods_come_change_their_annotation_and_go() {
    let mut watched = Watched::start();
    let watch = watched.server.sync(&[]).await;
    watched.next().await;
    watch.event("ADDED", &pod("a", "bert"));
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
    watch.event("MODIFIED", &pod("a", "gpt2"));
    assert_eq!(watched.next().await, ("current", pods([("a", "gpt2")])));
    watch.event(
        "MODIFIED",
        &with(pod("a", ""), "/metadata/annotations", Value::Null),
    );
    assert_eq!(watched.next().await, ("current", pods([])));
    watch.event("MODIFIED", &pod("a", "gpt2"));
    assert_eq!(watched.next().await, ("current", pods([("a", "gpt2")])));
    watch.event("DELETED", &pod("a", "gpt2"));
    assert_eq!(watched.next().await, ("current", pods([])));
}

#[tokio::test(start_paused = true)]
async fn events_that_change_no_declaration_publish_nothing() {
    let mut watched = Watched::start();
    let watch = watched.server.sync(&[pod("a", "bert")]).await;
    watched.next().await;
    watch.event(
        "MODIFIED",
        &with(
            pod("a", "bert,bert"),
            "/status/qosClass",
            json!("Burstable"),
        ),
    );
    watch.event("ADDED", &with(pod("quiet", ""), MODELS, json!(" , ")));
    watch.event(
        "ADDED",
        &with(pod("silent", ""), "/metadata/annotations", Value::Null),
    );
    watch.event("DELETED", &pod("stranger", "llama"));
    let bookmark =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "900"}});
    watch.event("BOOKMARK", &bookmark);
    drop(watch);
    // The next request shows that all events were read.
    let call = watched.server.next_watch().await;
    assert_eq!(call.parameter("resourceVersion").as_deref(), Some("900"));
    assert_eq!(watched.unchanged(), ("current", pods([("a", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_about_to_run_counts() {
    let mut watched = Watched::start();
    let pending = with(pod("pending", "bert"), PHASE, json!("Pending"));
    let fresh = with(pod("fresh", "gpt2"), "/status", Value::Null);
    let _watch = watched.server.sync(&[pending, fresh]).await;
    let expected = pods([("fresh", "gpt2"), ("pending", "bert")]);
    assert_eq!(watched.next().await, ("current", expected));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ended_does_not_count() {
    let mut watched = Watched::start();
    let ended = |name, phase| with(pod(name, "bert"), PHASE, json!(phase));
    let watch = watched
        .server
        .sync(&[
            ended("old", "Failed"),
            pod("job", "gpt2"),
            pod("crash", "llama"),
        ])
        .await;
    let expected = pods([("crash", "llama"), ("job", "gpt2")]);
    assert_eq!(watched.next().await, ("current", expected));
    watch.event("MODIFIED", &ended("job", "Succeeded"));
    assert_eq!(
        watched.next().await,
        ("current", pods([("crash", "llama")]))
    );
    watch.event("MODIFIED", &ended("crash", "Failed"));
    assert_eq!(watched.next().await, ("current", pods([])));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_counts_until_it_is_gone() {
    let mut watched = Watched::start();
    let watch = watched.server.sync(&[pod("a", "bert")]).await;
    watched.next().await;
    let dying = with(
        pod("a", "bert"),
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    watch.event("MODIFIED", &dying);
    // Published in order: had the first event taken the pod out, it would be missing here.
    watch.event("ADDED", &pod("b", "gpt2"));
    let expected = pods([("a", "bert"), ("b", "gpt2")]);
    assert_eq!(watched.next().await, ("current", expected));
    watch.event("DELETED", &dying);
    assert_eq!(watched.next().await, ("current", pods([("b", "gpt2")])));
}

#[tokio::test(start_paused = true)]
async fn a_pod_in_a_phase_that_does_not_say_it_ended_counts() {
    let mut watched = Watched::start();
    let lost = with(pod("lost", "bert"), PHASE, json!("Unknown"));
    let _watch = watched.server.sync(&[lost]).await;
    assert_eq!(watched.next().await, ("current", pods([("lost", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn a_drained_node_has_nothing_warm() {
    let mut watched = Watched::start();
    let all: Vec<Value> = (0..20).map(|n| pod(&format!("pod-{n}"), "bert")).collect();
    let watch = watched.server.sync(&all).await;
    assert_eq!(watched.published().await.pods.len(), 20);
    for pod in &all {
        watch.event("DELETED", pod);
    }
    watched
        .set
        .wait_for(|set| set.pods.is_empty())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_successor_of_the_same_name_is_another_pod() {
    let mut watched = Watched::start();
    let watch = watched.server.sync(&[pod("db-0", "bert")]).await;
    watched.next().await;
    watch.event(
        "ADDED",
        &with(pod("db-0", "bert"), "/metadata/uid", json!("successor")),
    );
    assert_eq!(watched.published().await.pods.len(), 2);
    watch.event("DELETED", &pod("db-0", "bert"));
    let set = watched.published().await;
    let uids: Vec<&str> = set.pods.keys().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(uids, ["successor"]);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_not_of_this_node_are_ignored() {
    let mut watched = Watched::start();
    let elsewhere = with(pod("elsewhere", "bert"), NODE_NAME, json!("node-8.example"));
    let unbound = with(pod("unbound", "bert"), NODE_NAME, Value::Null);
    let nameless = with(pod("nameless", "bert"), "/metadata/uid", Value::Null);
    let strangers = [elsewhere, unbound, nameless];
    let watch = watched.server.sync(&strangers).await;
    assert_eq!(watched.next().await, ("current", pods([])));
    for stranger in &strangers {
        watch.event("ADDED", stranger);
    }
    watch.event("ADDED", &pod("a", "gpt2"));
    assert_eq!(watched.next().await, ("current", pods([("a", "gpt2")])));
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_the_watch_and_leaves_the_set() {
    let mut watched = Watched::start();
    let _watch = watched.server.sync(&[pod("a", "bert")]).await;
    watched.next().await;
    let set = watched.set.clone();
    watched.stop().await;
    assert_eq!(set.borrow().pods.len(), 1);
    assert!(set.has_changed().is_err(), "the sender is still there");
}
