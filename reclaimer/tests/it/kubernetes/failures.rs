//! Answers that are errors: what was known stays, and the next list corrects it.

use serde_json::{Value, json};
use tetris_node::kubernetes::Fault;
use tokio::time::{Duration, Instant};

use crate::kubernetes::server::{OpenWatch, pod, status};
use crate::kubernetes::watched::{Watched, pods};

/// A watch that is current and knows the pods `a` and `b`.
async fn current() -> (Watched, OpenWatch) {
    let mut watched = Watched::start();
    let watch = watched
        .server
        .sync(&[pod("a", "bert"), pod("b", "gpt2")])
        .await;
    assert_eq!(watched.next().await, ("current", both()));
    (watched, watch)
}

fn both() -> std::collections::BTreeMap<String, String> {
    pods([("a", "bert"), ("b", "gpt2")])
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_is_continued_where_it_ended() {
    let (mut watched, watch) = current().await;
    drop(watch);
    let call = watched.server.next_watch().await;
    assert_eq!(call.parameter("resourceVersion").as_deref(), Some("100"));
    assert_eq!(watched.unchanged(), ("current", both()));
    call.open().event("DELETED", &pod("a", "bert"));
    assert_eq!(watched.next().await, ("current", pods([("b", "gpt2")])));
    assert_eq!(watched.fault_count(Fault::Watch), 0);
}

#[tokio::test(start_paused = true)]
async fn after_410_a_pod_is_dropped_only_when_a_complete_list_lacks_it() {
    let (mut watched, watch) = current().await;
    watch.event("ERROR", &status(410));
    assert_eq!(watched.next().await, ("stale", both()));
    // This list breaks off after its first page, which lacks the pod `b`.
    watched
        .server
        .next_list()
        .await
        .page(&[pod("a", "bert")], "more");
    watched.server.next_list().await.status(410);
    watched
        .server
        .next_list()
        .await
        .page(&[pod("a", "bert")], "more");
    let last = watched.server.next_list().await;
    assert_eq!(watched.unchanged(), ("stale", both()));
    last.pods(&[]);
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_answered_410_starts_over_with_a_list() {
    let (mut watched, watch) = current().await;
    drop(watch);
    watched.server.next_watch().await.status(410);
    assert_eq!(watched.next().await, ("stale", both()));
    let _watch = watched.server.sync(&[pod("b", "gpt2")]).await;
    assert_eq!(watched.next().await, ("current", pods([("b", "gpt2")])));
}

/// Answer of a server whose storage is not initialized.
fn put_off(retry_after_seconds: u32) -> Value {
    let mut busy = status(429);
    busy["reason"] = "TooManyRequests".into();
    busy["message"] = "storage is (re)initializing".into();
    busy["details"] = json!({"retryAfterSeconds": retry_after_seconds});
    busy
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_time_is_given_it_without_a_fault() {
    let mut watched = Watched::start();
    let call = watched.server.next_list().await;
    call.body(429, &put_off(77).to_string());
    let asked = Instant::now();
    let call = watched.server.next_list().await;
    assert!(asked.elapsed() >= Duration::from_secs(77));
    assert_eq!(watched.unchanged(), ("unknown", pods([])));
    call.pods(&[pod("a", "bert")]);
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
    // The watch after the list may be put off too.
    let call = watched.server.next_watch().await;
    call.body(429, &put_off(1).to_string());
    assert_eq!(watched.next().await, ("stale", pods([("a", "bert")])));
    let _watch = watched.server.sync(&[pod("a", "bert")]).await;
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
    assert_eq!(watched.fault_count(Fault::Watch), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_puts_requests_off_for_long_is_a_fault() {
    let mut watched = Watched::start();
    let begin = Instant::now();
    while watched.fault_count(Fault::Watch) == 0 {
        assert!(begin.elapsed() < Duration::from_mins(10));
        let call = watched.server.next_list().await;
        call.body(429, &put_off(1).to_string());
    }
    assert!(begin.elapsed() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn another_error_is_a_fault_whatever_came_before() {
    let mut watched = Watched::start();
    let call = watched.server.next_list().await;
    call.body(429, &put_off(1).to_string());
    watched.server.next_list().await.status(403);
    watched.server.next_list().await;
    assert_eq!(watched.fault_count(Fault::Watch), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_days_is_asked_again_sooner() {
    let mut watched = Watched::start();
    let mut busy = status(503);
    busy["details"] = json!({"retryAfterSeconds": u32::MAX});
    watched
        .server
        .next_list()
        .await
        .body(503, &busy.to_string());
    let asked = Instant::now();
    watched.server.next_list().await;
    assert!(asked.elapsed() < Duration::from_hours(1));
}

#[tokio::test(start_paused = true)]
async fn attempts_come_further_and_further_apart() {
    let mut watched = Watched::start();
    let begin = Instant::now();
    for code in [500, 502, 503, 504, 401, 403, 404, 500] {
        watched.server.next_list().await.status(code);
    }
    watched.server.next_list().await;
    // Eight waits: from 0.8 s, doubled up to 30 s, each with jitter of up to as much again.
    let waited = begin.elapsed();
    assert!(waited >= Duration::from_secs(110), "{waited:?}");
    assert!(waited <= Duration::from_secs(250), "{waited:?}");
    assert_eq!(watched.fault_count(Fault::Watch), 8);
    assert_eq!(watched.unchanged(), ("unknown", pods([])));
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_watch_keeps_every_pod() {
    let server_error = json!({"type": "ERROR", "object": status(500)}).to_string();
    let unreadable = json!({"type": "MODIFIED", "object": {"metadata": 7}}).to_string();
    for line in [server_error.as_str(), unreadable.as_str(), "not JSON"] {
        let (mut watched, watch) = current().await;
        watch.line(line);
        assert_eq!(watched.next().await, ("stale", both()), "{line}");
        let _watch = watched.server.sync(&[pod("a", "bert")]).await;
        assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
        assert_eq!(watched.fault_count(Fault::Watch), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_keeps_every_pod() {
    let page = "<html>maintenance</html>";
    let half = r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[{"meta"#;
    let unversioned = json!({"kind": "PodList", "metadata": {}, "items": []}).to_string();
    for body in [page, half, "", "{}", unversioned.as_str()] {
        let (mut watched, watch) = current().await;
        watch.event("ERROR", &status(410));
        assert_eq!(watched.next().await, ("stale", both()));
        watched.server.next_list().await.body(200, body);
        watched.server.next_list().await;
        assert_eq!(watched.unchanged(), ("stale", both()), "{body}");
        assert_eq!(watched.fault_count(Fault::Watch), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_newer_kubernetes_are_read() {
    let mut watched = Watched::start();
    let mut future = pod("a", "bert");
    future["spec"]["containers"] = json!({"of": "another shape"});
    future["status"]["conditions"] = json!(17);
    future["novelty"] = Value::Bool(true);
    let _watch = watched.server.sync(&[future]).await;
    assert_eq!(watched.next().await, ("current", pods([("a", "bert")])));
}
