//! Clients that keep to the rules.

use std::sync::mpsc::channel;
use std::time::Duration;

use tetris_agent::daemon::{DaemonClient, DaemonError, RoomMade};
use tetris_node::socket::{Fault, Limits, RoomAnswer};
use tetris_wire::daemon::{ErrorCode, Message, RoomReason, RoomRefusal};

use crate::socket::common::{ASK, Daemon, PATIENCE, Raw, eventually, made, store_dir};

#[test]
fn a_request_reaches_the_daemon_with_who_asks_and_its_answer_comes_back() {
    let dir = store_dir();
    let (seen, asks) = channel();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), move |ask| {
        seen.send((ask.store.clone(), ask.bytes, ask.inodes, ask.peer))
            .unwrap();
        made(ask)
    });
    let outcome = DaemonClient::new(dir.path().join("daemon"), PATIENCE).make_room(4096, 1);
    let expected = RoomMade {
        free_bytes: 1 << 20,
        freed_bytes: 1 << 10,
    };
    assert_eq!(outcome.unwrap(), expected);
    let (store, bytes, inodes, peer) = asks.recv().unwrap();
    assert_eq!((store.as_str(), bytes, inodes), ("store", 4096, 1));
    assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    assert_eq!(peer.pid, Some(std::process::id()));
}

#[test]
fn a_refusal_comes_back_as_it_was_said() {
    let dir = store_dir();
    let refusal = RoomRefusal {
        missing_bytes: 77,
        reason: RoomReason::POLICY,
        text: "declared warm".to_owned(),
    };
    let said = refusal.clone();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), move |_| {
        RoomAnswer::Refused(said.clone())
    });
    let outcome = DaemonClient::new(dir.path().join("daemon"), PATIENCE).make_room(4096, 0);
    assert!(matches!(outcome, Err(DaemonError::RoomRefused(found)) if found == refusal));
}

#[test]
fn more_than_the_file_system_can_hold_is_refused_without_asking_anyone() {
    let dir = store_dir();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), |ask| {
        panic!("asked for {} bytes", ask.bytes);
    });
    let outcome = DaemonClient::new(dir.path().join("daemon"), PATIENCE).make_room(u64::MAX, 0);
    let Err(DaemonError::RoomRefused(refusal)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(refusal.reason, RoomReason::TOO_LARGE);
    assert!(refusal.missing_bytes > 0);
}

#[test]
fn a_message_of_an_unknown_kind_gets_an_error_and_the_connection_goes_on() {
    let dir = store_dir();
    let daemon = Daemon::answering(dir.path(), Limits::default(), made);
    let mut raw = Raw::greeted(dir.path());
    for frame in [
        b"\x03\0\0\0\x3fabc".to_vec(),
        b"\0\0\0\0\xff".to_vec(),
        // An answer is nothing that a client sends.
        Message::RoomMade {
            free_bytes: 0,
            freed_bytes: 0,
        }
        .encode(),
    ] {
        raw.send(&frame);
        let Message::Error { code, .. } = raw.receive() else {
            panic!("no error for {frame:?}");
        };
        assert_eq!(code, ErrorCode::UNKNOWN_KIND);
    }
    raw.send(b"\x01\0\0\0\x03a");
    let Message::Error { code, text } = raw.receive() else {
        panic!("no error");
    };
    assert_eq!(code, ErrorCode::MALFORMED);
    assert!(text.contains("expected 12"), "{text}");
    raw.send(&ASK.encode());
    assert!(matches!(raw.receive(), Message::RoomMade { .. }));
    let unknown = |fault: &Fault| matches!(fault, Fault::Protocol(_, ErrorCode::UNKNOWN_KIND, _));
    assert!(daemon.has_fault(unknown));
}

#[test]
fn a_client_of_another_version_learns_the_daemons_and_is_let_go() {
    let dir = store_dir();
    let _daemon = Daemon::answering(dir.path(), Limits::default(), made);
    let mut raw = Raw::connect(dir.path());
    raw.send(b"TETRDAEM\x02\0\0\0");
    let mut theirs = [0; 12];
    std::io::Read::read_exact(&mut raw.0, &mut theirs).unwrap();
    assert_eq!(&theirs, b"TETRDAEM\x01\0\0\0");
    assert!(raw.hung_up());
}

#[test]
fn a_request_for_room_sees_that_its_client_went_away() {
    let dir = store_dir();
    let (seen, asks) = channel();
    let _daemon = Daemon::start(dir.path(), Limits::default(), move |ask| {
        seen.send(ask).unwrap();
    });
    let mut raw = Raw::greeted(dir.path());
    raw.send(&ASK.encode());
    let ask = asks.recv_timeout(PATIENCE).unwrap();
    assert!(!ask.reply.is_closed());
    drop(raw);
    eventually("the request is given up", || ask.reply.is_closed());
}

#[test]
fn a_second_request_before_the_answer_ends_the_connection() {
    let dir = store_dir();
    let (seen, asks) = channel();
    let _daemon = Daemon::start(dir.path(), Limits::default(), move |ask| {
        seen.send(ask).unwrap();
    });
    let mut raw = Raw::greeted(dir.path());
    raw.send(&ASK.encode());
    let _unanswered = asks.recv_timeout(PATIENCE).unwrap();
    raw.send(&ASK.encode());
    let Message::Error { code, .. } = raw.receive() else {
        panic!("no error");
    };
    assert_eq!(code, ErrorCode::OUT_OF_TURN);
    assert!(raw.hung_up());
}

#[test]
fn a_request_that_nobody_answers_ends_with_an_error() {
    let dir = store_dir();
    let limits = Limits {
        answer: Duration::from_millis(50),
        ..Limits::default()
    };
    let (keep, kept) = channel();
    let daemon = Daemon::start(dir.path(), limits, move |ask| keep.send(ask).unwrap());
    let outcome = DaemonClient::new(dir.path().join("daemon"), PATIENCE).make_room(4096, 0);
    assert!(outcome.is_err_and(|error| !error.is_absent()));
    assert!(daemon.has_fault(|fault| matches!(fault, Fault::Unanswered(_))));
    drop(kept);
}
