//! The sandbox of the broker's process, as the kernel shows it and as the broker meets it.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tetris_store_layout::{CreateOptions, Store};

use crate::processes::harness::{BROKER, Broker, Node};
use tetris_test_support::skipped::skipped;

const SHARED: &str = r#"
[[stores]]
name = "a"
path = "{root}/stores/a"
"#;

/// A node with a store and its broker, after the first pass.
fn node_and_broker(processes: &str) -> Option<(Node, Broker)> {
    let node = Node::new(SHARED)?;
    let config = node.path("node.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let table = format!("[processes]\n{processes}");
    std::fs::write(config, text.replace("[processes]\n", &table)).unwrap();
    node.mount();
    node.make_store("a");
    let broker = node.broker();
    broker.status("the first pass", |status| store(status, "a").is_some());
    Some((node, broker))
}

fn store<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    let stores = status["stores"].as_array()?;
    stores.iter().find(|store| store["name"] == name)
}

/// The sandbox of the broker, by its own status.
fn sandbox(broker: &Broker) -> Value {
    let status = broker.status("the broker itself", |status| {
        status["processes"][0]["process"] == "broker"
    });
    status["processes"][0]["sandbox"].clone()
}

/// A store of the broker's user, in a directory that every user may change.
fn store_elsewhere() -> TempDir {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    Store::create(dir.path().join("b"), &CreateOptions::default()).unwrap();
    give(dir.path());
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    dir
}

fn give(path: &Path) {
    chown(path, Some(BROKER), Some(BROKER)).unwrap();
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap().map(Result::unwrap);
        entries.for_each(|entry| give(&entry.path()));
    }
}

/// Adds the store `b` and has the broker read its configuration. Returns the status of the store.
fn reload_with(node: &Node, broker: &Broker, elsewhere: &TempDir) -> Value {
    let config = node.path("node.toml");
    let mut text = std::fs::read_to_string(&config).unwrap();
    let path = elsewhere.path().join("b");
    let path = path.display();
    write!(text, "\n[[stores]]\nname = \"b\"\npath = \"{path}\"\n").unwrap();
    std::fs::write(config, text).unwrap();
    kill(Pid::from_raw(broker.pid().cast_signed()), Signal::SIGHUP).unwrap();
    let status = broker.status("the store of the new configuration", |status| {
        store(status, "b").is_some()
    });
    store(&status, "b").unwrap().clone()
}

#[test]
fn every_thread_of_the_broker_is_filtered_and_without_capabilities() {
    let Some((_node, broker)) = node_and_broker("") else {
        return;
    };
    let tasks = std::fs::read_dir(format!("/proc/{}/task", broker.pid())).unwrap();
    let tasks: Vec<_> = tasks.map(|task| task.unwrap().path()).collect();
    assert!(tasks.len() > 3, "{tasks:?}");
    for task in tasks {
        let Ok(status) = std::fs::read_to_string(task.join("status")) else {
            // It has ended.
            continue;
        };
        for expected in [
            "Uid:\t9460\t9460\t9460\t9460",
            "Gid:\t9460\t9460\t9460\t9460",
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapAmb:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ] {
            let has_line = status.lines().any(|line| line == expected);
            assert!(has_line, "{expected}: {status}");
        }
    }
    let sandbox = sandbox(&broker);
    assert_eq!(sandbox["seccomp"], true, "{sandbox}");
    assert_eq!(sandbox["uid"], BROKER);
    assert_eq!(sandbox["capabilities"], "0000000000000000");
    // Rules, or the reason that there are none.
    let rules = (
        sandbox["landlock"].is_u64(),
        sandbox["landlock_because"].is_null(),
    );
    assert!(
        rules == (true, true) || rules == (false, false),
        "{sandbox}"
    );
    assert!(broker.stop().success());
}

#[test]
fn the_broker_opens_nothing_that_its_configuration_did_not_name_at_the_start() {
    let Some((node, broker)) = node_and_broker("") else {
        return;
    };
    if sandbox(&broker)["landlock"].is_null() {
        return skipped("needs Landlock");
    }
    let refused = reload_with(&node, &broker, &store_elsewhere());
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("Permission denied"), "{refused}");
    assert!(broker.stop().success());
}

#[test]
fn a_broker_without_its_sandbox_says_so_and_opens_the_same_store() {
    let Some((node, broker)) = node_and_broker("sandbox = \"off\"\n") else {
        return;
    };
    let opened = reload_with(&node, &broker, &store_elsewhere());
    assert_eq!(opened["error"], Value::Null, "{opened}");
    let sandbox = sandbox(&broker);
    assert_eq!(sandbox["seccomp"], false);
    assert_eq!(sandbox["landlock"], Value::Null);
    for because in ["seccomp_because", "landlock_because"] {
        assert_eq!(sandbox[because], "processes.sandbox is \"off\"");
    }
    assert!(broker.stop().success());
}
