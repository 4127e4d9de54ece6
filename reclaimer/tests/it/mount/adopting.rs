//! A daemon that starts again, while another process uses what the first one mounted.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tetris_node::mount::{Action, HugePages, MountConfig, ensure_mount};
use tetris_store_layout::{Access, CreateOptions, ObjectRef, Reclaimed, Store};

use tetris_test_support::mounts::{self, Place};

const ROOT: &str = "TETRIS_TEST_STORE";
const LENGTH: usize = 3 << 20;

fn bytes() -> Vec<u8> {
    (0..LENGTH).map(|index| (index % 251) as u8).collect()
}

/// Not its own test: what the other process runs.
#[test]
#[ignore = "run by references_and_bytes_survive_a_restart_and_a_remount in a process of its own"]
fn holder() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let store = Store::open(PathBuf::from(root)).unwrap();
    let object = ObjectRef::of(&bytes());
    let mapping = store.map(&object, Access::ReadOnly).unwrap().unwrap();
    let mut err = std::io::stderr();
    writeln!(err, "mapped").unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    assert!(*mapping == *bytes());
    writeln!(err, "intact").unwrap();
}

#[test]
fn references_and_bytes_survive_a_restart_and_a_remount() {
    if !mounts::enter() {
        return;
    }
    let dir = Place::default();
    let mut config = MountConfig {
        path: dir.path().join("tetris"),
        size_bytes: 16 << 20,
        inodes: 500,
        huge: HugePages::WithinSize,
        noswap: true,
        selinux_context: None,
        user: 0,
    };
    let root = config.path.join("a");
    ensure_mount(&config).unwrap();
    let store = Store::create(&root, &CreateOptions::default()).unwrap();
    drop(store.publish(&bytes(), Access::ReadOnly).unwrap());
    drop(store);
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "mount::adopting::holder",
            "--ignored",
            "--nocapture",
        ])
        .env(ROOT, &root)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(holder.stderr.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "mapped");

    assert_eq!(ensure_mount(&config).unwrap().action, Action::Adopt);
    config.size_bytes = 32 << 20;
    assert!(matches!(
        ensure_mount(&config).unwrap().action,
        Action::Remount(_)
    ));
    let store = Store::create(&root, &CreateOptions::default()).unwrap();
    let object = ObjectRef::of(&bytes());
    assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
    holder.stdin.take().unwrap().write_all(b"look\n").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "intact");
    assert!(holder.wait().unwrap().success());
    assert!(matches!(
        store.reclaim(&object).unwrap(),
        Reclaimed::Freed { .. }
    ));
}
