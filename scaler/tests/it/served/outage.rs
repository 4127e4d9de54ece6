//! Watches of an API server that is away for an hour of simulated time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tetris_scaler::metrics::Metrics;
use tetris_scaler::operator::watches::Watches;
use tetris_scaler::state::{Key, published};
use tokio::sync::Notify;
use tokio::time::{Duration, sleep, timeout};
use tower_test::mock;

use tetris_test_support::heap;

/// The longest time until all is right again: two of kube's waits of 30 s, with their jitter. The first attempt finds
/// that the server has forgotten the watch's version, the second lists.
const RECOVERY: Duration = Duration::from_mins(2);
/// Number of watched kinds.
const KINDS: usize = 5;

/// Lists nodes, and nothing of other kinds. Breaks all watches off when it goes away.
#[derive(Clone, Default)]
struct Server {
    is_away: Arc<AtomicBool>,
    went: Arc<Notify>,
    refused: Arc<AtomicUsize>,
    /// Number of times it came.
    started: Arc<AtomicUsize>,
    nodes: Arc<Mutex<Vec<&'static str>>>,
}

impl Server {
    fn client(&self) -> kube::Client {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        let server = self.clone();
        tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let request = tokio::select! {
                    () = server.went.notified() => {
                        open.clear();
                        continue;
                    }
                    request = handle.next_request() => request,
                };
                let Some((request, answer)) = request else {
                    return;
                };
                let uri = request.uri();
                if server.is_away.load(Ordering::Relaxed) {
                    server.refused.fetch_add(1, Ordering::Relaxed);
                    answer.send_error(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
                } else if uri.query().unwrap_or_default().contains("watch=") {
                    if uri.query().unwrap_or_default().contains(&server.version()) {
                        open.push(answer);
                    } else {
                        let expired = expired().to_string().into_bytes();
                        answer.send_response(Response::new(Body::from(expired)));
                    }
                } else {
                    let body = server.list(uri.path()).to_string().into_bytes();
                    answer.send_response(Response::new(Body::from(body)));
                }
            }
        });
        kube::Client::new(service, "default")
    }

    fn list(&self, path: &str) -> Value {
        let node =
            |name: &&str| json!({"metadata": {"name": name, "uid": name, "resourceVersion": "7"}});
        let nodes = self.nodes.lock().unwrap();
        let items: Vec<_> = match path {
            "/api/v1/nodes" => nodes.iter().map(node).collect(),
            _ => Vec::new(),
        };
        let version = self.started.load(Ordering::Relaxed).to_string();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": items})
    }

    /// The parameter of a watch from here on: a server forgets changes after minutes.
    fn version(&self) -> String {
        format!("resourceVersion={}", self.started.load(Ordering::Relaxed))
    }

    fn go(&self) {
        self.is_away.store(true, Ordering::Relaxed);
        self.went.notify_one();
    }

    fn come_back(&self, nodes: &[&'static str]) {
        *self.nodes.lock().unwrap() = nodes.to_vec();
        self.started.fetch_add(1, Ordering::Relaxed);
        self.is_away.store(false, Ordering::Relaxed);
    }
}

/// The event of a watch from a version that the server has forgotten.
fn expired() -> Value {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    json!({"type": "ERROR", "object": status})
}

fn nodes(watches: &Watches) -> Vec<String> {
    let known = watches.nodes.all();
    let keys = known.iter().flat_map(|all| all.keys());
    keys.map(|key: &Key| key.name.clone()).collect()
}

async fn until(watches: &Watches, expected: &[&str], limit: Duration) {
    let seen = async {
        while nodes(watches) != expected {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let seen = timeout(limit, seen).await;
    assert!(seen.is_ok(), "{:?}, expected {expected:?}", nodes(watches));
}

#[tokio::test(start_paused = true)]
async fn objects_stay_while_the_server_is_away_for_an_hour_and_are_right_soon_after() {
    let server = Server::default();
    server.come_back(&["a", "b"]);
    let (_, snapshots) = published();
    let metrics = Arc::new(Metrics::new(snapshots));
    let (client, changed, watches) = (server.client(), Notify::new(), Watches::default());
    let outage = async {
        until(&watches, &["a", "b"], RECOVERY).await;
        server.go();
        sleep(Duration::from_mins(10)).await;
        let bytes_before = heap::held();
        for _ in 0..50 {
            sleep(Duration::from_mins(1)).await;
            assert_eq!(nodes(&watches), ["a", "b"]);
            assert!(watches.pods.all().is_some());
        }
        let refused = server.refused.load(Ordering::Relaxed) / KINDS;
        assert!(
            (60..=400).contains(&refused),
            "{refused} attempts of each kind"
        );
        let grown = heap::held() - bytes_before;
        assert!(
            grown <= 64 << 10,
            "{grown} bytes more than early in the outage"
        );
        server.come_back(&["b", "c"]);
        until(&watches, &["b", "c"], RECOVERY).await;
    };
    tokio::select! {
        () = outage => {}
        () = watches.run(&client, &changed, &metrics) => panic!("the watches have ended"),
    }
    assert!(metrics.encode().unwrap().contains("class=\"watch\""));
}
