//! Watches of an API server that puts requests off, as one does that starts or has a new kind of resource.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tetris_scaler::metrics::Metrics;
use tetris_scaler::operator::watches::Watches;
use tetris_scaler::state::published;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};
use tower_test::mock;
use tracing_subscriber::fmt::MakeWriter;

/// Of paused time, so no one waits for it; far beyond every backoff.
const DEADLINE: Duration = Duration::from_hours(1);
const RETRY_AFTER: u32 = 17;

/// Answers each list with 429 until `Self::ready`, then with an empty one; leaves watches open.
struct Starting {
    ready: Instant,
    /// Times at which each path was listed.
    asked: Arc<Mutex<BTreeMap<String, Vec<Instant>>>>,
}

impl Starting {
    fn client(self) -> kube::Client {
        let (service, mut handle) = mock::pair::<Request<Body>, Response<Body>>();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Some((request, answer)) = handle.next_request().await {
                if request.uri().query().unwrap_or_default().contains("watch=") {
                    open.push(answer);
                    continue;
                }
                let path = request.uri().path().to_owned();
                let mut asked = self.asked.lock().unwrap();
                asked.entry(path).or_default().push(Instant::now());
                answer.send_response(self.list());
            }
        });
        kube::Client::new(service, "default")
    }

    fn list(&self) -> Response<Body> {
        let (code, object) = if Instant::now() < self.ready {
            (429, put_off())
        } else {
            let metadata = json!({"resourceVersion": "7"});
            let list =
                json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": []});
            (200, list)
        };
        let body = Body::from(object.to_string().into_bytes());
        Response::builder().status(code).body(body).unwrap()
    }
}

/// Returns the answer of an API server while its storage is not initialized.
fn put_off() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "storage is (re)initializing", "reason": "TooManyRequests", "code": 429,
        "details": {"retryAfterSeconds": RETRY_AFTER},
    })
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Returns the times at which each path was listed, warnings, and metrics, once all lists are there.
async fn watched(starts_for: Duration) -> (BTreeMap<String, Vec<Instant>>, String, String) {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(log.clone())
        .finish();
    let _for_this_thread = tracing::subscriber::set_default(subscriber);
    let asked = Arc::default();
    let server = Starting {
        ready: Instant::now() + starts_for,
        asked: Arc::clone(&asked),
    };
    let (_, snapshots) = published();
    let metrics = Arc::new(Metrics::new(snapshots));
    let (client, changed, watches) = (server.client(), Notify::new(), Watches::default());
    let synced = async {
        let all = || {
            let (functions, profiles) = (watches.functions.all(), watches.profiles.all());
            let (deployments, pods) = (watches.deployments.all(), watches.pods.all());
            functions.is_some()
                && profiles.is_some()
                && deployments.is_some()
                && pods.is_some()
                && watches.nodes.all().is_some()
        };
        while !all() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        found = timeout(DEADLINE, synced) => found.expect("not all is listed"),
        () = watches.run(&client, &changed, &metrics) => panic!("the watches have ended"),
    }
    let warnings = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let asked = asked.lock().unwrap().clone();
    (asked, warnings, metrics.encode().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_puts_watches_off_while_it_starts_is_given_its_time_without_a_warning() {
    let (asked, warnings, metrics) = watched(Duration::from_secs(5)).await;
    assert_eq!(warnings, "");
    assert!(!metrics.contains("class=\"watch\""), "{metrics}");
    assert_eq!(asked.len(), 5, "{asked:?}");
    for (path, times) in asked {
        let [first, second] = times[..] else {
            panic!("{path}: {times:?}");
        };
        let waited = second - first;
        assert!(
            waited >= Duration::from_secs(RETRY_AFTER.into()),
            "{path}: {waited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_puts_watches_off_for_long_is_warned_of() {
    let (_, warnings, metrics) = watched(Duration::from_mins(3)).await;
    for kind in ["functions", "profiles", "deployments", "pods", "nodes"] {
        assert!(
            warnings.contains(&format!("watch of {kind}: ")),
            "{warnings}"
        );
    }
    assert!(metrics.contains("class=\"watch\""), "{metrics}");
}
