//! Namespaces of pods, and the set of living namespaces.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use serde_json::{Value, json};
use tetris_node::csi::{NamespaceError, Namespaces, PodName, PodPlace};
use tetris_node::kubernetes::{KnownNamespaces, watch_namespaces};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tower_test::mock;

use crate::kubernetes::server::status;
use tetris_test_support::api::Api;
use tetris_test_support::heap;

type Mock = mock::Handle<Request<kube::client::Body>, Response<Body>>;
type Living = watch::Receiver<Option<BTreeSet<String>>>;

const BLUE: &str = "01234567-89ab-4cde-8fed-ba9876543210";
const LATER: &str = "11111111-89ab-4cde-8fed-ba9876543210";
const NAMESPACE: &str = "/api/v1/namespaces/blue";
const POD: &str = "/api/v1/namespaces/blue/pods/server-0";

fn pod() -> PodName {
    PodName {
        namespace: "blue".to_owned(),
        name: "server-0".to_owned(),
        uid: "1a2b".to_owned(),
    }
}

fn known() -> (KnownNamespaces, Mock) {
    let (service, handle) = mock::pair();
    let client = kube::Client::new(service, "default");
    (KnownNamespaces::new(client, watch::channel(None).1), handle)
}

fn metadata(uid: &str) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "x", "uid": uid, "resourceVersion": "7"},
    })
}

fn pod_object(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "server-0", "uid": uid, "resourceVersion": "7"},
        "spec": {"containers": []},
    })
}

fn in_blue(host_users: bool) -> PodPlace {
    PodPlace {
        namespace_uid: BLUE.to_owned(),
        host_users,
    }
}

/// Answers the next request, which is for what is in force now at `path`: for a namespace's metadata, or a whole pod.
async fn answer(server: &mut Mock, path: &str, code: u16, body: &Value) {
    let (request, answer) = server.next_request().await.expect("the client is gone");
    assert_eq!(request.uri().path(), path);
    // With a resource version the server could answer from a cache.
    let query = request.uri().query().unwrap_or_default();
    assert!(!query.contains("resourceVersion"), "{query}");
    let accept = request.headers().get("accept");
    let accept = accept.map_or("", |accept| accept.to_str().unwrap());
    let is_of_metadata = accept.contains("as=PartialObjectMetadata");
    assert_eq!(is_of_metadata, path == NAMESPACE, "{accept}");
    let response = Response::builder().status(code);
    answer.send_response(response.body(Body::from(body.to_string())).unwrap());
}

async fn of_pod(answers: &[(&str, u16, Value)]) -> Result<PodPlace, NamespaceError> {
    let (known, mut server) = known();
    let pod = pod();
    let answers = async {
        for (path, code, body) in answers {
            answer(&mut server, path, *code, body).await;
        }
    };
    let (found, ()) = tokio::join!(known.of_pod(&pod), answers);
    found
}

async fn is_gone(code: u16, body: Value) -> Result<bool, NamespaceError> {
    let (known, mut server) = known();
    let answered = answer(&mut server, NAMESPACE, code, &body);
    tokio::join!(known.is_gone("blue", BLUE), answered).0
}

fn not_found() -> Value {
    let mut status = status(404);
    status["reason"] = "NotFound".into();
    status
}

#[tokio::test]
async fn the_namespace_is_asked_for_before_the_pod_and_the_pod_has_to_be_the_one() {
    let blue = (NAMESPACE, 200, metadata(BLUE));
    let pod_facts = of_pod(&[blue.clone(), (POD, 200, pod_object("1a2b"))]).await;
    assert_eq!(pod_facts, Ok(in_blue(true)));
    let error = of_pod(&[blue.clone(), (POD, 200, pod_object("3c4d"))]).await;
    let uid = "3c4d".to_owned();
    assert_eq!(
        error,
        Err(NamespaceError::OtherPod {
            pod: pod(),
            found: uid
        })
    );
    let error = of_pod(&[blue, (POD, 404, not_found())]).await.unwrap_err();
    assert!(
        error.to_string().contains("no pod `blue/server-0`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_static_pod_is_known_by_what_stands_for_it() {
    let mut mirror = pod_object("3c4d");
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "1a2b"});
    let pod_facts = of_pod(&[(NAMESPACE, 200, metadata(BLUE)), (POD, 200, mirror)]).await;
    assert_eq!(pod_facts, Ok(in_blue(true)));
}

#[tokio::test]
async fn a_pod_has_the_users_of_its_node_unless_it_says_otherwise() {
    for (said, host_users) in [
        (json!(null), true),
        (json!(true), true),
        (json!(false), false),
    ] {
        let mut pod = pod_object("1a2b");
        pod["spec"]["hostUsers"] = said;
        let pod_facts = of_pod(&[(NAMESPACE, 200, metadata(BLUE)), (POD, 200, pod)]).await;
        assert_eq!(pod_facts, Ok(in_blue(host_users)));
    }
}

#[tokio::test]
async fn what_cannot_be_part_of_a_path_is_no_identifier() {
    for uid in [
        "",
        "../../etc",
        "01234567-89AB-4CDE-8FED-BA9876543210",
        "1a2b",
    ] {
        let error = of_pod(&[(NAMESPACE, 200, metadata(uid))])
            .await
            .unwrap_err();
        assert!(matches!(error, NamespaceError::NotAUuid { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_error_says_what_was_asked_for_and_what_can_be_done() {
    for (code, expected) in [
        (401, "check the token"),
        (403, "get, list and watch namespaces, and to get pods"),
        (503, "check that this node reaches the API server"),
    ] {
        let error = of_pod(&[(NAMESPACE, code, status(code))])
            .await
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("namespace `blue`") && text.contains(expected),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_namespace_is_gone_when_the_server_says_so_and_only_then() {
    assert_eq!(is_gone(200, metadata(BLUE)).await, Ok(false));
    assert_eq!(is_gone(200, metadata(LATER)).await, Ok(true));
    assert_eq!(is_gone(404, not_found()).await, Ok(true));
    // A proxy that knows no such path, a server that is about to start, one that refuses.
    for (code, body) in [
        (404, status(404)),
        (404, json!("nothing here")),
        (403, status(403)),
        (500, status(500)),
        (200, metadata("")),
    ] {
        assert!(is_gone(code, body.clone()).await.is_err(), "{code} {body}");
    }
}

struct Watched {
    server: Mock,
    living: Living,
    faults: watch::Receiver<u32>,
}

impl Watched {
    fn start() -> Self {
        let (service, server) = mock::pair();
        let client = kube::Client::new(service, "default");
        let (sender, living) = watch::channel(None);
        let (count, faults) = watch::channel(0);
        let fault = move |_| count.send_modify(|faults| *faults += 1);
        let watching = watch_namespaces(client, sender, fault, std::future::pending());
        tokio::spawn(watching);
        Self {
            server,
            living,
            faults,
        }
    }

    /// Answers the next request, a list or a watch.
    async fn body(&mut self, code: u16, body: String) {
        let (request, answer) = self.server.next_request().await.unwrap();
        assert_eq!(request.uri().path(), "/api/v1/namespaces");
        let response = Response::builder().status(code);
        answer.send_response(response.body(Body::from(body)).unwrap());
    }

    async fn list(&mut self, uids: &[&str], token: &str) {
        let items: Vec<_> = uids.iter().map(|uid| metadata(uid)).collect();
        let list = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {"resourceVersion": "7", "continue": token}, "items": items,
        });
        self.body(200, list.to_string()).await;
    }

    /// A watch that sends these, and ends.
    async fn events(&mut self, events: &[(&str, &str)]) {
        let lines = events
            .iter()
            .map(|(kind, uid)| format!("{}\n", json!({"type": kind, "object": metadata(uid)})));
        self.body(200, lines.collect()).await;
    }

    async fn until(&mut self, expected: &[&str]) {
        let expected: BTreeSet<_> = expected.iter().map(|uid| (*uid).to_owned()).collect();
        let seen = self
            .living
            .wait_for(|living| *living == Some(expected.clone()));
        drop(seen.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn the_watch_tells_what_lives_and_a_broken_one_takes_nothing_out() {
    let mut watched = Watched::start();
    watched.list(&["a", "b"], "more").await;
    assert_eq!(*watched.living.borrow(), None, "the list is not complete");
    watched.list(&["c"], "").await;
    watched
        .events(&[("ADDED", "d"), ("DELETED", "a"), ("MODIFIED", "b")])
        .await;
    watched.until(&["b", "c", "d"]).await;
    // It goes on, and breaks.
    watched.body(500, status(500).to_string()).await;
    watched
        .faults
        .wait_for(|faults| *faults == 1)
        .await
        .unwrap();
    watched.list(&["c"], "more").await;
    watched.body(503, status(503).to_string()).await;
    watched
        .faults
        .wait_for(|faults| *faults == 2)
        .await
        .unwrap();
    watched.until(&["b", "c", "d"]).await;
    watched.list(&["c", "e"], "").await;
    watched.until(&["c", "e"]).await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_stay_while_the_server_is_away_for_an_hour_and_are_right_soon_after() {
    let api = Api::new();
    let (blue, green) = (api.make("blue"), api.make("green"));
    let client = kube::Client::new(api.router(), "default");
    let (sender, mut living) = watch::channel(None);
    let faults = AtomicUsize::new(0);
    let count = |_| {
        faults.fetch_add(1, Ordering::Relaxed);
    };
    let outage = async {
        let both = BTreeSet::from([blue.clone(), green]);
        living.wait_for(Option::is_some).await.unwrap();
        api.set_silent(true);
        api.set_down(true);
        // The first part of it is the time in which a silent watch is noticed.
        sleep(Duration::from_mins(15)).await;
        let heap_before = heap::held();
        sleep(Duration::from_mins(45)).await;
        let (attempts, grown) = (faults.load(Ordering::Relaxed), heap::held() - heap_before);
        assert!((60..=400).contains(&attempts), "{attempts} attempts");
        assert!(
            grown <= 16 << 10,
            "{grown} bytes more than early in the outage"
        );
        assert_eq!(living.borrow().as_ref(), Some(&both));
        api.remove("green");
        let red = api.make("red");
        api.set_down(false);
        let expected = Some(BTreeSet::from([blue, red]));
        let back = living.wait_for(|found| *found == expected);
        timeout(Duration::from_mins(1), back)
            .await
            .expect("within one wait")
            .unwrap();
    };
    watch_namespaces(client, sender, count, outage).await;
}
