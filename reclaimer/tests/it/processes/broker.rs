//! The broker: a process without privileges that looks after stores of its user.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tetris_agent::{Agent, LoadOptions};

use crate::daemon::harness::eventually;
use crate::processes::harness::{BROKER, Node};
use tetris_test_support::reachable::reachable;

const VIEW: &str = "TETRIS_TEST_VIEW";
const MODEL: &str = "TETRIS_TEST_MODEL";
/// A user of pods.
const POD: u32 = 1000;
const MODEL_BYTES: usize = 8 << 20;
const UID: &str = "01234567-89ab-4cde-8fed-ba9876543210";

/// Stores of namespaces, whose objects go after a second without use.
const NAMESPACES: &str = r#"
[csi]
[csi.per_namespace]
path = "{root}/stores/{namespace}"
[kubernetes]
enabled = true
[policy.store]
keep_alive_secs = 1
expiry = "fixed"
expire_after_secs = 1
"#;

/// One store that everybody shares.
const SHARED: &str = r#"
[[stores]]
name = "a"
path = "{root}/stores/a"
"#;

#[test]
#[ignore = "run as a process of its own by the tests below"]
fn as_a_pod() {
    let variable = |name| std::env::var(name).unwrap();
    let agent = Agent::open_store(variable(VIEW)).unwrap();
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let model = agent.load_with(variable(MODEL), &options).unwrap();
    let report = model.report();
    println!(
        "\nLOADED {} {:?}",
        report.bytes_private, report.private_reason
    );
    // Held until no one waits for it.
    let _closed = std::io::stdin().read_line(&mut String::new());
}

/// Loads the model as a pod's user, and calls `held` while that process holds it.
fn load_as_a_pod(view: &Path, model: &Path, held: impl FnOnce()) {
    let program = std::env::current_exe().unwrap();
    let mut pod = Command::new(reachable(program, model.parent().unwrap()))
        .args([
            "--ignored",
            "--exact",
            "processes::broker::as_a_pod",
            "--nocapture",
        ])
        .env(VIEW, view)
        .env(MODEL, model)
        .uid(POD)
        .gid(POD)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(pod.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    let loaded = lines.find_map(|line| Some(line.split_once("LOADED ")?.1.to_owned()));
    assert_eq!(loaded.as_deref(), Some("0 None"));
    held();
    drop(pod.stdin.take());
    assert!(pod.wait().unwrap().success());
}

fn store_of(status: &Value) -> &Value {
    &status["stores"][0]
}

fn bytes_of(status: &Value, state: &str) -> u64 {
    store_of(status)["states"][state]["bytes"]
        .as_u64()
        .unwrap_or_default()
}

#[test]
fn the_broker_publishes_and_frees_models_of_pods_without_a_privilege() {
    let Some(node) = Node::new(NAMESPACES) else {
        return;
    };
    node.mount();
    let broker = node.broker();
    let proc = std::fs::read_to_string(format!("/proc/{}/status", broker.pid())).unwrap();
    for line in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000"] {
        assert!(proc.contains(line), "{proc}");
    }
    broker.status("the first pass", |status| status["stores"] == json!([]));
    // While nothing is known of the cluster, the broker spares models that were used lately.
    let nothing = json!({"freshness": {"state": "current"}, "pods": []});
    assert_eq!(broker.ask("PUT", "/declarations", &nothing).0, 204);
    // The broker learns of the store by itself.
    let store = node.make_store(&format!("blue.{UID}"));
    let named = format!("blue.{UID}");
    broker.status("the store", |status| store_of(status)["name"] == named);
    let view = node.view(&store);
    let model = node.model(MODEL_BYTES);
    load_as_a_pod(&view, &model, || {
        let holds_model = |status: &Value| bytes_of(status, "held") >= MODEL_BYTES as u64;
        broker.status("the model is held", holds_model);
    });
    broker.status("the model is freed", |status| {
        ["held", "warm", "idle"]
            .iter()
            .all(|state| bytes_of(status, state) == 0)
    });
    assert!(!broker.log().contains("ERROR"), "{}", broker.log());
    assert!(broker.stop().success());
}

#[test]
fn the_broker_waits_for_the_tmpfs_and_says_so() {
    let Some(node) = Node::new(SHARED) else {
        return;
    };
    let broker = node.broker();
    let (code, missing) = broker.get("/readyz");
    assert_eq!(code, 503);
    assert!(
        missing.contains("the tmpfs of the stores is not mounted"),
        "{missing}"
    );
    assert!(
        missing.contains("`tetris-node volumes` has not reported yet"),
        "{missing}"
    );
    assert_eq!(broker.get("/healthz").0, 200);
    node.mount();
    node.make_store("a");
    broker.status("the store", |status| store_of(status)["error"].is_null());
    let (_, missing) = broker.get("/readyz");
    assert_eq!(missing.trim(), "`tetris-node volumes` has not reported yet");
    let report = json!({
        "process": "volumes", "version": "9", "started_ms": 1, "errors": {"csi": 3, "later": 1},
        "usage": {"cpu_ms": 1500, "resident_bytes": 7, "open_files": 8, "threads": 9},
        "volumes": {"registered": true, "waiting_for": null, "counts": {"idmapped": 2, "plain": 0, "plain_because": null}},
        "sandbox": {"seccomp": false, "uid": 0},
    });
    assert_eq!(broker.ask("PUT", "/reports/volumes", &report).0, 204);
    assert_eq!(broker.get("/readyz").0, 200);
    let status = broker.status("the report", |status| !status["volumes"].is_null());
    assert_eq!(status["volumes"]["idmapped"], 2);
    assert_eq!(status["processes"][0]["process"], "broker");
    assert_eq!(status["processes"][0]["sandbox"]["uid"], BROKER);
    assert_eq!(status["processes"][1]["version"], "9");
    let equal = |series: &str, value: f64| {
        let metric = broker.metric(series);
        assert!((metric - value).abs() < 1e-9, "{series} {metric}");
    };
    equal("tetris_errors_total{store=\"\",class=\"csi\"}", 3.0);
    equal("tetris_process_up{process=\"volumes\"}", 1.0);
    equal("tetris_process_cpu_seconds_total{process=\"volumes\"}", 1.5);
    // The report of another process is not that of this one.
    assert_eq!(broker.ask("PUT", "/reports/cluster", &report).0, 400);
    assert!(broker.stop().success());
}

#[test]
fn a_broker_that_waits_ends_when_it_is_told_and_a_second_one_does_not_start() {
    let Some(node) = Node::new(SHARED) else {
        return;
    };
    let broker = node.broker();
    let mut second = node.command().stderr(Stdio::null()).spawn().unwrap();
    let ended = eventually("the end of the second", || second.try_wait().unwrap());
    assert_eq!(ended.code(), Some(4));
    assert!(broker.stop().success());
}

#[test]
fn a_message_that_is_too_long_or_too_slow_is_refused() {
    let Some(node) = Node::new(SHARED) else {
        return;
    };
    let broker = node.broker();
    let long = json!({"process": "x".repeat(64 << 10)});
    let (code, reason) = broker.ask("PUT", "/reports/volumes", &long);
    assert_eq!(code, 413, "{reason}");
    let mut slow = UnixStream::connect(node.path("run/broker/socket")).unwrap();
    let head = "PUT /reports/volumes HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n{";
    slow.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn declarations_come_from_the_cluster_and_survive_the_broker() {
    let Some(node) = Node::new(NAMESPACES) else {
        return;
    };
    node.mount();
    node.make_store(&format!("blue.{UID}"));
    let broker = node.broker();
    let declared = json!({
        "freshness": {"state": "current"},
        "pods": [{"namespace": "blue", "name": "a", "uid": "1", "models": ["bert"]}],
    });
    assert_eq!(broker.ask("PUT", "/declarations", &declared).0, 204);
    broker.status("the declarations", |status| {
        status["declarations"]["state"] == "current" && status["declaring_pods"] == 1
    });
    let wrong = json!({"freshness": {"state": "current"}, "pods": 7});
    assert_eq!(broker.ask("PUT", "/declarations", &wrong).0, 400);
    assert!(broker.stop().success());
    let broker = node.broker();
    broker.status("the declarations of the earlier run", |status| {
        status["declarations"]["state"] == "stale" && status["declaring_pods"] == 1
    });
    // One that was just started knows nothing yet.
    let unknown = json!({"freshness": {"state": "unknown"}, "pods": []});
    assert_eq!(broker.ask("PUT", "/declarations", &unknown).0, 204);
    let since = SystemTime::now() - Duration::from_secs(7);
    let since_ms = since.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let none = json!({"freshness": {"state": "stale", "since_ms": since_ms}, "pods": []});
    let status = broker.status("a pass", |status| !status["declaring_pods"].is_null());
    assert_eq!(status["declaring_pods"], 1);
    assert_eq!(broker.ask("PUT", "/declarations", &none).0, 204);
    broker.status("no declarations", |status| status["declaring_pods"] == 0);
    assert!(broker.stop().success());
}

#[test]
#[ignore = "run as a process of its own by the test below"]
fn as_another_user() {
    let socket = std::env::var(VIEW).unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = json!({"directory": format!("blue.{UID}")}).to_string();
    let length = body.len();
    let request = format!(
        "POST /stores/removal HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    println!("\nANSWER {}", answer.replace("\r\n", " "));
}

#[test]
fn only_root_has_a_store_removed_and_only_one_that_nobody_uses() {
    let Some(node) = Node::new(NAMESPACES) else {
        return;
    };
    node.mount();
    let name = format!("blue.{UID}");
    let store = node.make_store(&name);
    let broker = node.broker();
    broker.status("the store", |status| store_of(status)["name"] == name);
    for user in [POD, BROKER] {
        let asked = Command::new(reachable(std::env::current_exe().unwrap(), &node.path("")))
            .args([
                "--ignored",
                "--exact",
                "processes::broker::as_another_user",
                "--nocapture",
            ])
            .env(VIEW, node.path("run/broker/socket"))
            .uid(user)
            .gid(user)
            .output()
            .unwrap();
        let output = String::from_utf8(asked.stdout).unwrap();
        assert!(output.contains("ANSWER HTTP/1.1 403"), "{output}");
    }
    assert!(store.is_dir());
    for directory in ["..", "red", "a/../b", "Blue", ""] {
        let (code, reason) =
            broker.ask("POST", "/stores/removal", &json!({"directory": directory}));
        // `red` is a namespace's name, and no store is there: nothing is left to remove.
        let expected = if directory == "red" { 200 } else { 400 };
        assert_eq!(code, expected, "{directory}: {reason}");
    }
    let order = json!({"directory": name});
    let removed = || {
        let (code, answer) = broker.ask("POST", "/stores/removal", &order);
        assert_eq!(code, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let (view, model) = (node.view(&store), node.model(MODEL_BYTES));
    load_as_a_pod(&view, &model, || {
        assert_eq!(removed(), json!({"outcome": "in-use"}));
        assert!(store.is_dir());
    });
    // The pod's locks go with its process.
    eventually("the store goes", || {
        (removed()["outcome"] == "removed").then_some(())
    });
    assert!(!store.exists());
    broker.status("no store", |status| status["stores"] == json!([]));
    assert!(broker.stop().success());
}
