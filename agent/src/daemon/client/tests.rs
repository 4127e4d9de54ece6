//! Answers that daemons give, and strangers.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use tetris_wire::daemon::{ErrorCode, PROTOCOL};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of a client's preamble and greeting.
const GREETING: usize = 12 + 9;

/// Result of `call` at a listener that does `serve` with its connection.
fn called<T>(
    serve: impl FnOnce(&mut UnixStream) + Send,
    call: impl FnOnce(DaemonClient) -> T,
) -> T {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("daemon");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            serve(&mut stream);
            // Until the client hangs up: a close before it has written could be an error for it.
            let _closed = std::io::copy(&mut stream, &mut std::io::sink());
        });
        call(DaemonClient::new(&socket, TIMEOUT))
    })
}

fn with_preamble(message: &Message) -> Vec<u8> {
    [PROTOCOL.preamble().as_slice(), &message.encode()].concat()
}

fn greeted(answer: &[u8]) -> Result<String, DaemonError> {
    called(
        |stream| stream.write_all(answer).unwrap(),
        |client| client.version(),
    )
}

fn hello_ack(daemon: &str) -> Vec<u8> {
    let daemon = daemon.to_owned();
    with_preamble(&Message::HelloAck { daemon })
}

fn error(code: ErrorCode) -> Message {
    let text = "ends".to_owned();
    Message::Error { code, text }
}

#[test]
fn a_daemon_says_its_version() {
    assert_eq!(greeted(&hello_ack("9.8.7")).unwrap(), "9.8.7");
}

#[test]
fn another_protocol_counts_as_none_and_is_named() {
    let mut preamble = PROTOCOL.preamble();
    preamble[8] = 7;
    let error = greeted(&preamble).unwrap_err();
    assert!(error.is_absent(), "{error}");
    assert!(
        matches!(error, DaemonError::Version { found: 7, expected, .. } if expected == PROTOCOL.version)
    );
}

#[test]
fn strangers_and_errors_are_no_absence() {
    let stranger = greeted(b"HTTP/1.1 400 Bad Request").unwrap_err();
    assert!(
        matches!(stranger, DaemonError::Protocol { .. }),
        "{stranger}"
    );
    let unavailable = greeted(&with_preamble(&error(ErrorCode::UNAVAILABLE))).unwrap_err();
    assert!(
        matches!(unavailable, DaemonError::Answered { .. }),
        "{unavailable}"
    );
    assert!(!stranger.is_absent() && !unavailable.is_absent());
}

#[test]
fn a_dead_socket_and_none_are_no_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("daemon");
    let client = DaemonClient::new(&socket, TIMEOUT);
    assert!(client.version().unwrap_err().is_absent());
    drop(UnixListener::bind(&socket).unwrap());
    assert!(client.version().unwrap_err().is_absent());
}

#[test]
fn a_daemon_that_takes_no_memory_is_named_with_its_version() {
    let outcome = called(
        |stream| {
            stream.write_all(&hello_ack("0.0.9")).unwrap();
            // The greeting, and the request without its descriptor.
            stream.read_exact(&mut [0; GREETING + 5 + 44]).unwrap();
            let refused = error(ErrorCode::UNKNOWN_KIND);
            stream.write_all(&refused.encode()).unwrap();
        },
        |client| {
            let memory = tempfile::tempfile().unwrap();
            client.publish_memory(memory.as_fd(), ObjectRef::of(b"abc"))
        },
    );
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, DaemonError::TooOld { version } if version == "0.0.9"),
        "{error}"
    );
}

#[test]
fn a_request_says_its_span_and_an_older_daemon_answers_it_all_the_same() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (answer, made) in [(Message::TraceKept, 7), (error(ErrorCode::UNKNOWN_KIND), 8)] {
        let room = called(
            |stream| {
                stream.write_all(&hello_ack("1")).unwrap();
                let mut asked = [0; GREETING + 5 + PARENT.len()];
                stream.read_exact(&mut asked).unwrap();
                assert!(asked.ends_with(PARENT.as_bytes()));
                stream.write_all(&answer.encode()).unwrap();
                let made = Message::RoomMade {
                    free_bytes: made,
                    freed_bytes: 0,
                };
                stream.write_all(&made.encode()).unwrap();
            },
            |client| crate::with_trace_parent(PARENT, || client.make_room(1, 0)),
        );
        assert_eq!(room.unwrap().free_bytes, made);
    }
}
