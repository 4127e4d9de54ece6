//! Mounting and unmounting by the command, as a service manager and an administrator do it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tetris_store_layout::{Access, CreateOptions, ObjectRef, Store};

use crate::daemon::harness::{Daemon, EXE};
use tetris_test_support::mounts::{self, Place};

static BYTES: [u8; 300_000] = [7; 300_000];

/// A configuration with a store at the mount point itself; `None` where nothing can be mounted.
fn place() -> Option<(Place, PathBuf, PathBuf)> {
    mounts::enter().then(|| {
        let dir = Place::default();
        let store = dir.path().join("tetris/store");
        let config = dir.path().join("node.toml");
        let path = store.display();
        let text = format!(
            "[mount]\npath = \"{path}\"\nsize_bytes = 16777216\n[[stores]]\nname = \"default\"\npath = \"{path}\"\n"
        );
        std::fs::write(&config, text).unwrap();
        (dir, config, store)
    })
}

/// Runs a subcommand. Returns its success and its log.
fn run(subcommand: &str, config: &Path) -> (bool, String) {
    let mut command = Command::new(EXE);
    command.arg(subcommand).arg("--config").arg(config);
    let output = command.env_remove("RUST_LOG").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), log)
}

#[test]
fn mounting_makes_the_store_and_unmounting_leaves_nothing_but_what_is_mapped() {
    let Some((_dir, config, path)) = place() else {
        return;
    };
    let (mounted, log) = run("mount", &config);
    assert!(mounted && log.contains("tmpfs mounted"), "{log}");
    let store = Store::open(&path).unwrap();
    drop(store.publish(&BYTES, Access::ReadOnly).unwrap());
    let object = ObjectRef::of(&BYTES);
    let mapping = store.map(&object, Access::ReadOnly).unwrap().unwrap();
    let (again, log) = run("mount", &config);
    assert!(again && log.contains("tmpfs adopted"), "{log}");
    assert!(store.map(&object, Access::ReadOnly).unwrap().is_some());
    let (unmounted, log) = run("unmount", &config);
    assert!(unmounted && log.contains("tmpfs unmounted"), "{log}");
    assert!(!path.exists());
    assert!(*mapping == BYTES);
    let (nothing, log) = run("unmount", &config);
    assert!(nothing && log.contains("no tmpfs is mounted"), "{log}");
}

#[test]
fn a_store_that_a_daemon_serves_is_not_unmounted() {
    let Some((_dir, config, path)) = place() else {
        return;
    };
    let daemon = Daemon::start(&config, &[]);
    daemon.says("tmpfs mounted");
    crate::daemon::harness::eventually("the socket", || {
        let store = Store::open(&path).ok()?;
        std::os::unix::net::UnixStream::connect(store.daemon_socket()).ok()
    });
    let (unmounted, log) = run("unmount", &config);
    assert!(!unmounted && log.contains("stop it first"), "{log}");
    assert!(Store::open(&path).is_ok());
    assert!(daemon.stop().success());
    assert!(run("unmount", &config).0);
    assert!(!path.exists());
}

#[test]
fn a_mount_of_another_kind_and_a_plain_store_are_left_alone() {
    let Some((dir, config, path)) = place() else {
        return;
    };
    Store::create(
        &path,
        &CreateOptions::default().with_allow_other_file_systems(true),
    )
    .unwrap();
    let (nothing, log) = run("unmount", &config);
    assert!(nothing && log.contains("no tmpfs is mounted"), "{log}");
    assert!(Store::open(&path).is_ok());
    let (mounted, log) = run("mount", &config);
    assert!(!mounted && log.contains("not empty"), "{log}");
    let none = None::<&str>;
    let below = dir.path().join("tetris");
    let bind = nix::mount::MsFlags::MS_BIND;
    mounts::tmpfs(&below, "size=1m");
    std::fs::create_dir_all(below.join("store")).unwrap();
    std::fs::create_dir(below.join("inner")).unwrap();
    nix::mount::mount(Some(&below.join("inner")), &path, none, bind, none).unwrap();
    let (unmounted, log) = run("unmount", &config);
    assert!(!unmounted && log.contains("of a tmpfs"), "{log}");
}

#[test]
fn without_the_table_there_is_nothing_to_do() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = dir.path().join("node.toml");
    let store = dir.path().join("store");
    let text = format!("[[stores]]\nname = \"a\"\npath = \"{}\"\n", store.display());
    std::fs::write(&config, text).unwrap();
    for subcommand in ["mount", "unmount"] {
        let (done, log) = run(subcommand, &config);
        assert!(done && log.contains("no table `mount`"), "{log}");
    }
    assert!(!store.exists());
}
