//! A daemon that does not answer, in each of the ways in which it can fail to.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tetris_agent::daemon::{DaemonClient, DaemonError, RoomMade};
use tetris_wire::daemon::{Message, PROTOCOL};

use crate::socket::common::{PATIENCE, store_dir};

const SHORT: Duration = Duration::from_millis(200);

/// A server that does `serve` with its first client and then hangs up.
fn server(root: &Path, serve: impl FnOnce(UnixStream) + Send + 'static) -> JoinHandle<()> {
    let listener = UnixListener::bind(root.join("daemon")).unwrap();
    let thread = Builder::new().name("server".to_owned());
    thread
        .spawn(move || serve(listener.accept().unwrap().0))
        .unwrap()
}

fn greet(stream: &mut UnixStream) {
    let mut hello = [0; 12 + 5 + 4];
    stream.read_exact(&mut hello).unwrap();
    stream.write_all(&PROTOCOL.preamble()).unwrap();
    let daemon = "test".to_owned();
    stream
        .write_all(&Message::HelloAck { daemon }.encode())
        .unwrap();
}

fn ask(root: &Path, timeout: Duration) -> Result<RoomMade, DaemonError> {
    DaemonClient::new(root.join("daemon"), timeout).make_room(4096, 0)
}

fn require_timeout(outcome: Result<RoomMade, DaemonError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, DaemonError::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("within 200ms"), "{error}");
}

#[test]
fn a_daemon_that_accepts_and_says_nothing_is_given_up_at_the_deadline() {
    let dir = store_dir();
    let server = server(dir.path(), |mut stream| {
        let _until_hangup = std::io::copy(&mut stream, &mut std::io::sink());
    });
    let begun = Instant::now();
    require_timeout(ask(dir.path(), SHORT));
    assert!(begun.elapsed() >= SHORT);
    server.join().unwrap();
}

#[test]
fn a_daemon_that_sends_byte_by_byte_does_not_move_the_deadline() {
    let dir = store_dir();
    let server = server(dir.path(), |mut stream| {
        greet(&mut stream);
        let header = [0xf0, 0xff, 0, 0, 4];
        stream.write_all(&header).unwrap();
        // Ends when the client hangs up, far from the announced length.
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    require_timeout(ask(dir.path(), SHORT));
    server.join().unwrap();
}

#[test]
fn a_daemon_whose_queue_is_full_is_given_up_at_the_deadline() {
    let dir = store_dir();
    let listener = UnixListener::bind(dir.path().join("daemon")).unwrap();
    let backlog = nix::sys::socket::Backlog::new(0).unwrap();
    nix::sys::socket::listen(&listener, backlog).unwrap();
    let _queued = UnixStream::connect(dir.path().join("daemon")).unwrap();
    require_timeout(ask(dir.path(), SHORT));
}

#[test]
fn a_daemon_that_dies_in_the_middle_of_a_request_is_a_failure_and_no_refusal() {
    let dir = store_dir();
    let server = server(dir.path(), |mut stream| {
        greet(&mut stream);
        let mut request = [0; 5 + 12];
        stream.read_exact(&mut request).unwrap();
        stream.write_all(b"\x10\0\0").unwrap();
    });
    let outcome = ask(dir.path(), PATIENCE);
    assert!(outcome.is_err_and(|error| !error.is_absent()));
    server.join().unwrap();
}

#[test]
fn a_daemon_that_hangs_up_at_once_is_a_failure_and_kills_nobody() {
    let dir = store_dir();
    let server = server(dir.path(), drop);
    let outcome = ask(dir.path(), PATIENCE);
    assert!(outcome.is_err_and(|error| !error.is_absent()));
    server.join().unwrap();
}

#[test]
fn a_daemon_of_another_version_is_none() {
    let dir = store_dir();
    let server = server(dir.path(), |mut stream| {
        stream.read_exact(&mut [0; 12]).unwrap();
        stream.write_all(b"TETRDAEM\x09\0\0\0").unwrap();
    });
    assert!(ask(dir.path(), PATIENCE).unwrap_err().is_absent());
    server.join().unwrap();
}

#[test]
fn garbage_and_huge_lengths_are_failures() {
    for garbage in [
        &b"HTTP/1.1 400 Bad Request"[..],
        b"TETRDAEM\x01\0\0\0\xff\xff\xff\xff\x02",
    ] {
        let dir = store_dir();
        let server = server(dir.path(), |mut stream| {
            stream.write_all(garbage).unwrap();
            let _until_hangup = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let outcome = ask(dir.path(), PATIENCE);
        assert!(outcome.is_err_and(|error| !error.is_absent()));
        server.join().unwrap();
    }
}

#[test]
fn without_a_socket_there_is_no_daemon() {
    let dir = store_dir();
    assert!(ask(dir.path(), PATIENCE).unwrap_err().is_absent());
    let gone = ask(&dir.path().join("gone"), PATIENCE);
    assert!(gone.unwrap_err().is_absent());
}
