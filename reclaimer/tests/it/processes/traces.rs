//! Spans of loads, as a collector gets them from one process and from several.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use tetris_agent::{Agent, LoadOptions, with_trace_parent};
use tetris_test_support::collector::{CollectedSpan, Collector};

use crate::daemon::harness::{Daemon, EXE, Place, eventually};
use crate::processes::harness::{BROKER, Node};
use tetris_test_support::reachable::reachable;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0ba902b7";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// A shared store of a node of several processes, without Kubernetes.
const SHARED: &str = r#"
[[stores]]
name = "a"
path = "{root}/stores/a"
"#;

/// A process that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Checks the spans of a brokered load of `len` bytes.
fn expect_load(collector: &Collector, len: usize) {
    let of_client = |span: &CollectedSpan| span.name == "client" && span.parent == CLIENT;
    let client = collector.wait(of_client);
    assert_eq!(
        (client.service.as_str(), client.trace.as_str()),
        ("tetris-node", TRACE)
    );
    assert_eq!(client.attribute("request"), Some("ingest"), "{client:#?}");
    assert_eq!(client.attribute("store"), Some("a"), "{client:#?}");
    let ingest = collector.wait(|span| span.name == "ingest");
    assert_eq!((ingest.trace.as_str(), &ingest.parent), (TRACE, &client.id));
    assert_eq!(
        ingest.attribute("outcome"),
        Some("published"),
        "{ingest:#?}"
    );
    let read: usize = ingest.attribute("bytes_read").unwrap().parse().unwrap();
    assert!(read >= len, "{ingest:#?}");
}

#[test]
fn a_pass_and_room_for_a_load_are_spans() {
    let collector = Collector::start();
    let place = Place::new();
    let store = place.store();
    let config = place.config("interval_secs = 1");
    let endpoint = collector.endpoint();
    let variables = [(ENDPOINT, endpoint.as_ref())];
    let daemon = Daemon::start_with(&config, &[], &variables);
    eventually("the daemon listens", || {
        store.daemon_socket().exists().then_some(())
    });
    let made = with_trace_parent(PARENT, || {
        let daemon =
            tetris_agent::daemon::DaemonClient::of_store(&store, std::time::Duration::from_mins(1));
        daemon.make_room(4096, 1)
    });
    made.unwrap();
    let asked = collector.wait(|span| span.attribute("request") == Some("room"));
    assert_eq!(
        (asked.trace.as_str(), asked.parent.as_str()),
        (TRACE, CLIENT)
    );
    let pass = collector.wait(|span| span.name == "pass");
    assert!(pass.attribute("trigger").is_some() && pass.attribute("bytes_freed").is_some());
    // The last ones are sent before the process ends.
    assert!(daemon.stop().success());
}

#[test]
fn the_broker_has_no_network_and_its_spans_go_through_the_process_that_has() {
    let collector = Collector::start();
    let Some(node) = Node::new(SHARED) else {
        return;
    };
    node.mount();
    let store = node.make_store("a");
    let sockets = node.path("run/cluster");
    std::fs::create_dir_all(&sockets).unwrap();
    chown(&sockets, Some(BROKER), Some(BROKER)).unwrap();
    let cluster = Command::new(reachable(EXE, &node.path("")))
        .arg("cluster")
        .arg("--config")
        .arg(node.path("node.toml"))
        .env(ENDPOINT, collector.endpoint())
        .env_remove("NODE_NAME")
        .uid(BROKER)
        .gid(BROKER)
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let _cluster = Killed(cluster);
    eventually("the relay listens", || {
        sockets.join("traces").exists().then_some(())
    });
    let mut command = node.command();
    command.env(ENDPOINT, collector.endpoint());
    let broker = Killed(command.stderr(Stdio::inherit()).spawn().unwrap());
    let view = node.view(&store);
    eventually("the broker listens", || {
        view.join("daemon").exists().then_some(())
    });
    let len = 8 << 20;
    let file = node.model(len);
    let agent = Agent::open_store(&view).unwrap();
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let model = with_trace_parent(PARENT, || agent.load_with(&file, &options).unwrap());
    assert_eq!(model.report().bytes_private, 0, "{:?}", model.report());
    expect_load(&collector, len);
    drop(broker);
}

#[test]
fn several_processes_refuse_a_collector_behind_tls() {
    let place = Place::new();
    place.store();
    let config = place.config(&format!(
        "[processes]\ndirectory = \"{}\"\nsandbox = \"off\"\n",
        place.path("run").display()
    ));
    for process in ["broker", "cluster"] {
        let output = Command::new(EXE)
            .arg(process)
            .arg("--config")
            .arg(&config)
            .args(["--otlp-endpoint", "https://collector:4317"])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(
            error.contains("https://collector:4317") && error.contains("expected http://"),
            "{error}"
        );
    }
}
