//! Taking the socket's name, and giving it up.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use tetris_agent::daemon::DaemonClient;
use tetris_agent::{CreateOptions, Store};
use tetris_node::socket::{Limits, Socket, SocketError};
use tetris_wire::TakeoverError;
use tokio::runtime::Runtime;

use crate::socket::common::{Daemon, PATIENCE, made, store_dir};
use crate::socket::mount::Mount;

fn bind(root: &Path) -> Result<Socket, SocketError> {
    let runtime = Runtime::new().unwrap();
    let _inside = runtime.enter();
    Socket::bind(root, "store")
}

fn is_made(root: &Path) -> bool {
    let outcome = DaemonClient::new(root.join("daemon"), PATIENCE).make_room(4096, 0);
    outcome.is_ok()
}

#[test]
fn the_socket_of_a_dead_daemon_is_replaced() {
    let dir = store_dir();
    let path = dir.path().join("daemon");
    drop(UnixListener::bind(&path).unwrap());
    // Of one that was killed before it had the name.
    drop(UnixListener::bind(dir.path().join("daemon.new")).unwrap());
    let outcome = DaemonClient::new(&path, PATIENCE).make_room(4096, 0);
    assert!(outcome.unwrap_err().is_absent());
    let mut daemon = Daemon::answering(dir.path(), Limits::default(), made);
    assert!(is_made(dir.path()));
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o666);
    daemon.stop();
    assert!(!path.exists(), "a daemon that stops takes its socket along");
    assert!(!dir.path().join("daemon.new").exists());
}

#[test]
fn the_socket_of_a_dead_daemon_is_replaced_though_no_further_file_can_be_made() {
    let Some(mount) = Mount::tmpfs("size=1m,nr_inodes=30") else {
        return;
    };
    let root = mount.path();
    Store::create(root, &CreateOptions::default()).unwrap();
    drop(UnixListener::bind(root.join("daemon")).unwrap());
    let mut made = (0..).map(|n| fs::write(root.join(format!("objects-v1/{n}")), ""));
    let full = made.find_map(Result::err).unwrap();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let socket = bind(root).unwrap();
    UnixStream::connect(socket.path()).unwrap();
}

#[test]
fn the_socket_of_a_daemon_that_lives_is_left_alone() {
    let dir = store_dir();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), made);
    let second = bind(dir.path());
    assert!(
        matches!(
            second,
            Err(SocketError::Takeover(TakeoverError::InUse { .. }))
        ),
        "{second:?}"
    );
    assert!(is_made(dir.path()));
}

#[test]
fn a_daemon_that_stops_leaves_the_socket_of_its_successor() {
    let dir = store_dir();
    let mut old = Daemon::answering(dir.path(), Limits::default(), made);
    fs::remove_file(dir.path().join("daemon")).unwrap();
    let _new = Daemon::answering(dir.path(), Limits::default(), made);
    old.stop();
    assert!(is_made(dir.path()));
}

#[test]
fn of_many_daemons_that_start_at_once_one_gets_the_socket() {
    let dir = store_dir();
    drop(UnixListener::bind(dir.path().join("daemon")).unwrap());
    let root = dir.path();
    let bound: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| bind(root))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for other in bound.iter().filter_map(|bound| bound.as_ref().err()) {
        assert!(
            matches!(other, SocketError::Takeover(TakeoverError::InUse { .. })),
            "{other}"
        );
    }
    assert_eq!(bound.iter().filter(|bound| bound.is_ok()).count(), 1);
    assert!(UnixStream::connect(root.join("daemon")).is_ok());
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let dir = store_dir();
    let path = dir.path().join("daemon");
    fs::write(&path, "someone's").unwrap();
    let bound = bind(dir.path());
    assert!(
        matches!(
            bound,
            Err(SocketError::Takeover(TakeoverError::NotOurs { .. }))
        ),
        "{bound:?}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"someone's");
    // The agent takes it for what it is, too.
    let outcome = DaemonClient::new(&path, PATIENCE).make_room(1, 0);
    assert!(outcome.unwrap_err().is_absent());
}

#[test]
fn the_socket_of_another_user_is_left_alone() {
    if !nix::unistd::geteuid().is_root() {
        return tetris_test_support::skipped::skipped("needs root to give a file away");
    }
    let dir = store_dir();
    let path = dir.path().join("daemon");
    drop(UnixListener::bind(&path).unwrap());
    std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
    let bound = bind(dir.path());
    let Err(SocketError::Takeover(TakeoverError::NotOurs { found, .. })) = bound else {
        panic!("{bound:?}");
    };
    assert!(found.contains("4711"), "{found}");
    assert!(path.exists());
}

#[test]
fn a_store_with_a_long_path_has_a_socket_as_well() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = dir.path().join("deep".repeat(40));
    Store::create(&root, &CreateOptions::default()).unwrap();
    let _daemon = Daemon::answering(&root, Limits::default(), made);
    assert!(is_made(&root));
}

#[test]
fn a_store_can_be_created_where_a_daemons_socket_was_left() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for name in ["daemon", "daemon.new"] {
        drop(UnixListener::bind(dir.path().join(name)).unwrap());
    }
    Store::create(dir.path(), &CreateOptions::default()).unwrap();
    fs::write(dir.path().join("daemon.old"), "").unwrap();
    fs::remove_file(dir.path().join("store")).unwrap();
    let refused = Store::create(dir.path(), &CreateOptions::default());
    assert!(refused.is_err(), "only these names are expected");
}
