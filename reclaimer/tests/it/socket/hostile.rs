//! Clients that do not keep to the rules, and those who are served beside them.

use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tetris_agent::daemon::DaemonClient;
use tetris_node::socket::{Fault, Limits};
use tetris_wire::daemon::{Message, PROTOCOL, RoomReason};

use crate::socket::common::{ASK, Daemon, PATIENCE, Raw, eventually, made, store_dir};
use tetris_test_support::alone::alone;

fn is_served(root: &Path) -> bool {
    let outcome = DaemonClient::new(root.join("daemon"), PATIENCE).make_room(4096, 0);
    outcome.is_ok()
}

/// Sends `bytes` and passes `fds` with them.
fn pass(raw: &Raw, bytes: &[u8], fds: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(fds)];
    let sent = sendmsg::<()>(
        raw.0.as_raw_fd(),
        &[IoSlice::new(bytes)],
        &rights,
        MsgFlags::empty(),
        None,
    );
    assert_eq!(sent.unwrap(), bytes.len());
}

#[test]
fn garbage_half_frames_and_huge_lengths_disturb_nobody_else() {
    let dir = store_dir();
    let daemon = Daemon::answering(dir.path(), Limits::default(), made);
    let mut hold = Vec::new();
    for garbage in [&b""[..], b"T", b"GET / HTTP/1.1\r\n", &[0xff; 4096]] {
        let mut raw = Raw::connect(dir.path());
        raw.send(garbage);
        hold.push(raw);
    }
    for half in [&b"\x0c"[..], b"\x0c\0\0\0\x03\x01", b"\xf0\xff\0\0\x40"] {
        let mut raw = Raw::greeted(dir.path());
        raw.send(half);
        hold.push(raw);
    }
    let mut huge = Raw::greeted(dir.path());
    huge.send(b"\xff\xff\xff\xff\x03");
    assert!(matches!(huge.receive(), Message::Error { .. }));
    assert!(huge.hung_up());
    let mut silent = Raw::connect(dir.path());
    silent.send(&PROTOCOL.preamble());
    silent.send(&ASK.encode());
    assert!(silent.hung_up(), "a request without a Hello");
    for _ in 0..20 {
        assert!(is_served(dir.path()));
    }
    let broken = |fault: &Fault| matches!(fault, Fault::Protocol(..));
    assert!(daemon.has_fault(broken));
}

#[test]
fn a_client_that_sends_byte_by_byte_is_let_go() {
    let dir = store_dir();
    let limits = Limits {
        idle: Duration::from_millis(200),
        ..Limits::default()
    };
    let daemon = Daemon::answering(dir.path(), limits, made);
    let mut slow = Raw::greeted(dir.path());
    slow.send(b"\xf0\xff\0\0\x03");
    // Each byte comes well within the time that one message may take as a whole.
    eventually("the slow client is let go", || {
        std::thread::sleep(Duration::from_millis(10));
        slow.0.write_all(b"x").is_err()
    });
    assert!(daemon.has_fault(|fault| matches!(fault, Fault::Stalled(_))));
    assert!(is_served(dir.path()));
}

#[test]
fn a_client_that_takes_no_answers_is_let_go() {
    let dir = store_dir();
    let limits = Limits {
        idle: Duration::from_millis(200),
        ..Limits::default()
    };
    let daemon = Daemon::answering(dir.path(), limits, made);
    let mut deaf = Raw::greeted(dir.path());
    // Each gets an Error, which is longer; none is read.
    let unknown = b"\0\0\0\0\x3f".repeat(1000);
    eventually("the deaf client is let go", || {
        deaf.0.write_all(&unknown).is_err()
    });
    assert!(daemon.has_fault(|fault| matches!(fault, Fault::Stalled(_))));
    assert!(is_served(dir.path()));
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once_and_those_that_end_make_place() {
    let dir = store_dir();
    let limits = Limits {
        connections: 16,
        per_user: 8,
        ..Limits::default()
    };
    let daemon = Daemon::answering(dir.path(), limits, made);
    let greeted: Vec<_> = (0..8).map(|_| Raw::greeted(dir.path())).collect();
    for _ in 0..1000 {
        assert!(Raw::connect(dir.path()).hung_up());
    }
    let crowded = |fault: &&Fault| matches!(fault, Fault::Crowded(_));
    assert_eq!(
        daemon.faults.lock().unwrap().iter().filter(crowded).count(),
        1000
    );
    drop(greeted);
    eventually("there is place again", || is_served(dir.path()));
}

#[test]
fn descriptors_that_nobody_asked_for_are_closed_while_the_client_is_still_there() {
    let dir = store_dir();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), made);
    let mut raw = Raw::greeted(dir.path());
    let (mut reader, writer) = std::io::pipe().unwrap();
    pass(&raw, &ASK.encode(), &[writer.as_raw_fd(); 100]);
    assert!(matches!(raw.receive(), Message::RoomMade { .. }));
    drop(writer);
    // The end of the pipe comes when no one has its other side any more.
    assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    raw.send(&ASK.encode());
    assert!(matches!(raw.receive(), Message::RoomMade { .. }));
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn no_descriptor_is_left_of_any_client() {
    if !alone() {
        return;
    }
    let dir = store_dir();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), made);
    assert!(is_served(dir.path()));
    let null = std::fs::File::open("/dev/null").unwrap();
    // Some may be about to be closed still: what is left of 30 clients would be more.
    let baseline = descriptors();
    let mut greeted = Vec::new();
    for _ in 0..30 {
        let mut raw = Raw::greeted(dir.path());
        pass(&raw, &ASK.encode(), &[null.as_raw_fd(); 50]);
        assert!(matches!(raw.receive(), Message::RoomMade { .. }));
        // These stay in a frame that never ends.
        pass(&raw, b"\x0c\0\0", &[null.as_raw_fd(); 50]);
        greeted.push(raw);
    }
    // Both ends of each connection are here.
    let most = baseline + 2 * greeted.len();
    // Other threads close them.
    eventually("their descriptors are closed", || descriptors() <= most);
    drop(greeted);
    assert!(is_served(dir.path()));
    eventually("all are closed", || descriptors() <= baseline);
}

/// Variable with the store of the other user's client.
const ROOT: &str = "TETRIS_TEST_STORE";

#[test]
#[ignore = "run as another user by the test below"]
fn stranger() {
    let root = std::env::var_os(ROOT).unwrap();
    let root = Path::new(&root);
    let mut greeted: Vec<_> = (0..4).map(|_| Raw::greeted(root)).collect();
    for _ in 0..100 {
        assert!(Raw::connect(root).hung_up());
    }
    greeted[0].send(&ASK.encode());
    let Message::RoomRefused(refusal) = greeted[0].receive() else {
        panic!("no refusal");
    };
    assert_eq!(refusal.reason, RoomReason::NOT_ALLOWED);
    println!("\nholding");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_user_who_may_not_reclaim_is_refused_and_cannot_keep_out_those_who_may() {
    if !nix::unistd::geteuid().is_root() {
        return tetris_test_support::skipped::skipped("needs root to become another user");
    }
    let dir = store_dir();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open).unwrap();
    let limits = Limits {
        connections: 8,
        per_user: 6,
        strangers: 4,
        ..Limits::default()
    };
    let daemon = Daemon::answering(dir.path(), limits, made);
    let mut child = Command::new("/proc/self/exe")
        .args([
            "--ignored",
            "--exact",
            "socket::hostile::stranger",
            "--nocapture",
        ])
        .env(ROOT, dir.path())
        .current_dir("/")
        .uid(4711)
        .gid(4711)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line == "holding"), "{:?}", child.wait());
    assert!(is_served(dir.path()));
    drop(child.stdin.take());
    // The rest is read, or the child could not write it.
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    assert!(daemon.has_fault(|fault| matches!(fault, Fault::NotAllowed(peer) if peer.uid == 4711)));
    assert!(daemon.has_fault(|fault| matches!(fault, Fault::Crowded(peer) if peer.uid == 4711)));
}
