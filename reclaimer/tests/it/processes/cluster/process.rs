//! The process itself, as the user that it has in the DaemonSet where the test may choose one.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::routing::{get, put};
use axum::{Json, Router};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;
use tempfile::TempDir;
use tetris_node::http::{PageSource as _, Pages};
use tetris_node::processes::messages::{LivingNamespaces, PlaceOfPod, PodQuestion};
use tetris_service_kit::http::ConnectionLimits;
use tetris_service_kit::unix_http::{UnixClient, UnixHttpError, listen, serve};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::daemon::harness::{EXE, eventually};
use crate::daemon::pages::get_by_token;
use crate::http::fixtures::{Daemon, node};
use tetris_test_support::api::{Api, POD_UID, uid_of};
use tetris_test_support::reachable::reachable;

/// The user of the process in the DaemonSet.
const USER: u32 = 9461;
const PATIENCE: Duration = Duration::from_mins(1);

/// Messages that the broker has taken, with their paths.
type Messages = Arc<Mutex<Vec<(String, Value)>>>;

/// A node: an API server, a broker, and the process between them.
struct Node {
    dir: TempDir,
    runtime: Runtime,
    api: Api,
    messages: Messages,
    daemon: Daemon,
}

struct Cluster {
    child: Child,
    log: PathBuf,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let (runtime, api) = (Runtime::new().unwrap(), Api::new());
        let server = runtime.block_on(api.serve());
        for name in ["broker", "cluster"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        if geteuid().is_root() {
            chown(dir.path().join("cluster"), Some(USER), Some(USER)).unwrap();
        }
        let kubeconfig = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
        );
        fs::write(dir.path().join("kubeconfig"), kubeconfig).unwrap();
        let config = format!(
            "node = \"node-1\"\nlisten = \"127.0.0.1:0\"\n\
             [network]\nmetrics = \"127.0.0.1:0\"\nprobes = \"127.0.0.1:0\"\ninventory = \"127.0.0.1:0\"\n\
             [kubernetes]\nenabled = true\n\
             [processes]\ndirectory = \"{dir}\"\n\
             [csi]\nkubelet_dir = \"{dir}/kubelet\"\n\
             [csi.per_namespace]\npath = \"{dir}/stores/{{namespace}}\"\n",
            dir = dir.path().display()
        );
        fs::write(dir.path().join("node.toml"), config).unwrap();
        Self {
            dir,
            runtime,
            api,
            messages: Messages::default(),
            daemon: Daemon::with(node()),
        }
    }

    fn socket(&self, process: &str) -> PathBuf {
        self.dir.path().join(process).join("socket")
    }

    /// Starts the broker. It ends when the task is aborted, and leaves its socket behind.
    fn broker(&self) -> JoinHandle<()> {
        let take = async |State(to): State<Messages>, path: Uri, Json(message): Json<Value>| {
            to.lock().unwrap().push((path.path().to_owned(), message));
            StatusCode::NO_CONTENT
        };
        let messages = Router::new()
            .route("/declarations", put(take))
            .route("/reports/cluster", put(take))
            .with_state(Arc::clone(&self.messages));
        let router = Pages::new(self.daemon.shared.clone()).all();
        self.serve(router.merge(messages))
    }

    /// Serves this router as the broker.
    fn serve(&self, router: Router) -> JoinHandle<()> {
        let _runtime = self.runtime.enter();
        let listener = listen(&self.socket("broker")).unwrap();
        let limits = ConnectionLimits::default();
        let served = serve(listener, router, limits, std::future::pending());
        self.runtime.spawn(served)
    }

    fn kill(&self, broker: JoinHandle<()>) {
        broker.abort();
        let ended = self.runtime.block_on(broker);
        assert!(ended.unwrap_err().is_cancelled());
    }

    /// Waits for a message that holds.
    fn took(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) {
        eventually(what, || {
            let messages = self.messages.lock().unwrap();
            let mut messages = messages.iter();
            messages
                .any(|(at, message)| at == path && holds(message))
                .then_some(())
        });
    }

    fn start(&self) -> Cluster {
        let log = self.dir.path().join("log");
        let mut command = Command::new(reachable(EXE, self.dir.path()));
        command.env("KUBECONFIG", self.dir.path().join("kubeconfig"));
        command.arg("cluster").arg("--config");
        command.arg(self.dir.path().join("node.toml"));
        if geteuid().is_root() {
            command.uid(USER).gid(USER);
        }
        let stderr = Stdio::from(File::create(&log).unwrap());
        let child = command.stderr(stderr).spawn().unwrap();
        Cluster { child, log }
    }

    fn call<A: serde::de::DeserializeOwned>(
        &self,
        method: http::Method,
        path: &str,
        message: &(impl serde::Serialize + Sync),
    ) -> Result<A, UnixHttpError> {
        let client = UnixClient::new(self.socket("cluster"), PATIENCE);
        self.runtime.block_on(client.call(method, path, message))
    }
}

impl Cluster {
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Address that the log has after `name`.
    fn address(&self, name: &str) -> SocketAddr {
        let key = format!(" {name}=");
        eventually(&format!("the address {name}"), || {
            let log = self.log();
            let rest = log.split(&key).nth(1)?;
            rest.split_whitespace().next()?.parse().ok()
        })
    }

    fn get(&self, server: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address(server)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: node\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn stop(mut self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGHUP).unwrap();
        eventually("the configuration is read again", || {
            self.log()
                .contains("configuration read again")
                .then_some(())
        });
        kill(pid, Signal::SIGTERM).unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}: {}", self.log());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn is_at(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

fn owner(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).unwrap().uid()
}

#[test]
fn the_broker_gets_declarations_and_reports_and_again_when_it_is_restarted() {
    let node = Node::new();
    node.api.run_pod("node-1", "blue", "a", "bert");
    node.api.run_pod("node-2", "blue", "elsewhere", "gpt2");
    let broker = node.broker();
    let cluster = node.start();
    let declares = |pods: &'static [(&str, &str)]| {
        move |message: &Value| {
            let found = message["pods"].as_array().unwrap().iter();
            let pods_and_models =
                found.map(|pod| (pod["name"].as_str(), pod["models"][0].as_str()));
            message["freshness"]["state"] == "current"
                && pods_and_models.eq(pods.iter().map(|(name, model)| (Some(*name), Some(*model))))
        }
    };
    node.took("declarations", "/declarations", declares(&[("a", "bert")]));
    node.api.run_pod("node-1", "blue", "b", "llama");
    let both = &[("a", "bert"), ("b", "llama")];
    node.took("changed declarations", "/declarations", declares(both));
    node.took("a report", "/reports/cluster", |report| {
        report["process"] == "cluster" && report["usage"]["threads"].as_u64() > Some(1)
    });
    node.kill(broker);
    node.messages.lock().unwrap().clear();
    let _broker = node.broker();
    node.took(
        "declarations after the restart",
        "/declarations",
        declares(both),
    );
    node.took("reports after the restart", "/reports/cluster", |_| true);
    cluster.stop();
}

#[test]
fn pages_and_probes_are_served_and_probes_go_on_without_a_broker() {
    let node = Node::new();
    let broker = node.broker();
    let cluster = node.start();
    for (server, page, status) in [
        ("address", "/status", 200),
        ("address", "/inventory/objects", 200),
        ("metrics", "/metrics", 200),
        ("metrics", "/status", 404),
        ("probes", "/healthz/broker", 200),
        ("probes", "/metrics", 404),
    ] {
        let answer = cluster.get(server, page);
        assert!(is_at(&answer, status), "{server}{page}: {answer}");
        assert!(answer.contains("connection: close"), "{answer}");
    }
    // There are CSI services, and no one has reported of them.
    let ready = cluster.get("probes", "/readyz");
    assert!(
        is_at(&ready, 503) && ready.contains("tetris-node volumes"),
        "{ready}"
    );
    node.kill(broker);
    // Clients share a page of metrics for a moment.
    eventually("no old metrics", || {
        is_at(&cluster.get("metrics", "/metrics"), 503).then_some(())
    });
    for (server, page, status) in [
        ("probes", "/healthz", 200),
        ("probes", "/healthz/volumes", 200),
        ("probes", "/healthz/broker", 503),
        ("address", "/healthz", 200),
        ("address", "/status", 503),
        ("metrics", "/metrics", 503),
    ] {
        let answer = cluster.get(server, page);
        assert!(is_at(&answer, status), "{server}{page}: {answer}");
        let socket = node.socket("broker");
        let names_it = answer.contains(socket.to_str().unwrap());
        assert_eq!(names_it, status == 503, "{server}{page}: {answer}");
    }
    if geteuid().is_root() {
        assert_eq!(owner(&node.socket("cluster")), USER);
    }
    cluster.stop();
}

/// A page of the largest node, which is never the same, for clients that read nothing of it.
#[test]
fn clients_that_read_slowly_take_no_more_memory_than_the_limits() {
    const PAGE: usize = 36_000_000;
    let node = Node::new();
    let number = AtomicU64::new(0);
    let page = Arc::new(move || {
        let number = number.fetch_add(1, Ordering::SeqCst);
        ([("etag", format!("\"{number}\""))], vec![b'a'; PAGE])
    });
    let router = Router::new().route("/inventory/objects", get(async move || page()));
    let _broker = node.serve(router);
    let cluster = node.start();
    let address = cluster.address("address");
    let (mut slow, mut pages, mut refused) = (Vec::new(), 0, 0);
    for _ in 0..30 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = b"GET /inventory/objects HTTP/1.1\r\nhost: node\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        match &status {
            b"HTTP/1.1 200" => pages += 1,
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
        slow.push(stream);
    }
    assert!(
        pages >= 3 && refused >= 1,
        "{pages} pages, {refused} refused"
    );
    let status = fs::read_to_string(format!("/proc/{}/status", cluster.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: usize = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    // The limits of pages and metrics, and the process itself.
    assert!(peak < (128 + 48 + 64) << 10, "{peak} KiB for {pages} pages");
    drop(slow);
    cluster.stop();
}

#[test]
fn the_inventory_is_for_named_accounts_over_tls() {
    let node = Node::new();
    let _broker = node.broker();
    let cluster = node.start();
    let inventory = cluster.address("inventory");
    let ask = |token| node.runtime.block_on(get_by_token(inventory, token));
    let (nothing, audience) = ask("nonsense");
    assert!(
        is_at(&nothing, 401) && nothing.ends_with("\r\n\r\n"),
        "{nothing}"
    );
    let scaler = "system:serviceaccount:tetris-system:tetris-scaler";
    node.api.add_token("scaler", scaler, &audience);
    // The address of the refused token must wait.
    let page = eventually("the scaler's inventory", || {
        let (answer, _) = ask("scaler");
        is_at(&answer, 200).then_some(answer)
    });
    assert!(page.contains("\"objects\":["), "{page}");
    cluster.stop();
}

#[test]
fn root_asks_it_for_the_place_of_a_pod_and_for_living_namespaces() {
    let node = Node::new();
    let uid = node.api.make("blue");
    let cluster = node.start();
    cluster.address("address");
    let question = PodQuestion {
        namespace: "blue".to_owned(),
        name: "a".to_owned(),
        uid: POD_UID.to_owned(),
    };
    let ask = || node.call::<PlaceOfPod>(http::Method::POST, "/pods/place", &question);
    // The socket is there before the addresses are.
    let place = ask().unwrap();
    assert_eq!((place.namespace_uid, place.host_users), (uid, true));
    eventually("the list of namespaces", || {
        let living = node.call::<LivingNamespaces>(http::Method::GET, "/namespaces/living", &());
        living
            .unwrap()
            .uids
            .filter(|uids| uids.contains(&uid_of("blue", 1)))
    });
    cluster.stop();
}

#[test]
fn a_second_process_at_the_same_socket_ends_with_the_reason() {
    let node = Node::new();
    let first = node.start();
    first.address("address");
    let begun = Instant::now();
    let mut second = node.start();
    let ended = second.child.wait().unwrap();
    assert!(!ended.success());
    assert!(
        second.log().contains("another process listens on"),
        "{}",
        second.log()
    );
    assert!(begun.elapsed() < PATIENCE);
}
