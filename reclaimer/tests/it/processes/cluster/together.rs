//! The process beside the real broker, which is stopped, killed and started again.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::daemon::harness::{EXE, Place, eventually};
use tetris_test_support::api::Api;

const PATIENCE: Duration = Duration::from_mins(1);

/// A process of the daemon. Killed when dropped.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(name: &str, place: &Place, config: &Path) -> Self {
        let log = place.path(&format!("{name}.log"));
        let child = Command::new(EXE)
            .env("KUBECONFIG", place.path("kubeconfig"))
            .arg(name)
            .arg("--config")
            .arg(config)
            .stderr(Stdio::from(File::create(&log).unwrap()))
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
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

    fn get(&self, server: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address(server)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: node\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, body.to_owned())
    }

    fn becomes(&self, server: &str, path: &str, status: u16) {
        eventually(&format!("{path} is {status}: {}", self.log()), || {
            (self.get(server, path).0 == status).then_some(())
        });
    }

    /// The status, once it holds.
    fn status(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        eventually(what, || {
            let (status, body) = self.get("address", "/status");
            let page = serde_json::from_str(&body).unwrap_or_default();
            (status == 200 && holds(&page)).then_some(())
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn node(server: SocketAddr) -> (Place, PathBuf) {
    let place = Place::new();
    place.store();
    let kubeconfig = format!(
        "{{clusters: [{{name: c, cluster: {{server: 'http://{server}'}}}}], users: [{{name: u, user: {{}}}}], \
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}], current-context: x}}"
    );
    fs::write(place.path("kubeconfig"), kubeconfig).unwrap();
    let text = format!(
        "node = \"node-1\"\ninterval_secs = 1\nlisten = \"127.0.0.1:0\"\n\
         [network]\nmetrics = \"127.0.0.1:0\"\nprobes = \"127.0.0.1:0\"\n\
         [kubernetes]\nenabled = true\n[processes]\ndirectory = \"{}\"\n",
        place.path("run").display()
    );
    let config = place.config(&text);
    (place, config)
}

#[test]
fn pages_are_those_of_the_broker_and_without_it_probes_go_on_until_it_is_back() {
    let (runtime, api) = (Runtime::new().unwrap(), Api::new());
    let (place, config) = node(runtime.block_on(api.serve()));
    api.run_pod("node-1", "blue", "a", "bert");
    let mut broker = Process::start("broker", &place, &config);
    let cluster = Process::start("cluster", &place, &config);
    cluster.becomes("probes", "/readyz", 200);
    let declares =
        |page: &Value| page["declaring_pods"] == 1 && page["declarations"]["state"] == "current";
    cluster.status("the pod's declaration", declares);
    let (status, objects) = cluster.get("address", "/inventory/objects");
    assert!(
        status == 200 && objects.contains("\"name\":\"a\""),
        "{objects}"
    );
    assert_eq!(cluster.get("metrics", "/metrics").0, 200);

    broker.signal(Signal::SIGSTOP);
    // Its threads stop one after the other. Then it is asked, and does not answer.
    cluster.becomes("probes", "/healthz/broker", 503);
    for path in ["/readyz", "/healthz/broker"] {
        let (status, reason) = cluster.get("probes", path);
        assert!(
            status == 503 && reason.contains("no answer from"),
            "{path}: {reason}"
        );
    }
    assert_eq!(cluster.get("probes", "/healthz").0, 200);
    let (status, reason) = cluster.get("address", "/status");
    assert!(
        status == 503 && reason.contains("no answer from"),
        "{reason}"
    );
    broker.signal(Signal::SIGCONT);
    cluster.becomes("probes", "/readyz", 200);
    cluster.status("the same declaration", declares);

    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    for (server, path, expected) in [
        ("probes", "/healthz", 200),
        ("probes", "/healthz/broker", 503),
        ("probes", "/readyz", 503),
        ("address", "/status", 503),
        ("address", "/inventory", 503),
    ] {
        let (status, body) = cluster.get(server, path);
        assert_eq!(status, expected, "{path}: {body}");
    }
    broker = Process::start("broker", &place, &config);
    cluster.becomes("probes", "/readyz", 200);
    cluster.status("the declaration after the restart", declares);
    drop(broker);
}
