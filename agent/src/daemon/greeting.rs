//! A greeting, to learn whether a daemon looks after a store, and of which version it is.

use std::path::Path;
use std::time::{Duration, Instant};

use tetris_wire::daemon::Message;

use super::connection::{DaemonConnection, Failure};

/// Result of a greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Greeting {
    /// A daemon answered.
    Answered {
        /// Its version.
        version: String,
    },
    /// No one listens.
    Absent,
    /// A daemon of another version of the protocol listens. Agents do without it.
    OtherProtocol {
        /// Version of its protocol.
        found: u32,
        /// Version of this build's protocol.
        expected: u32,
    },
    /// Someone listens and did not answer as a daemon does, for this reason.
    Failed(String),
}

/// Greets the daemon that listens at `socket`, and waits for its answer for at most `timeout`. It
/// asks for nothing.
pub fn greet(socket: &Path, timeout: Duration) -> Greeting {
    let deadline = Instant::now() + timeout;
    match DaemonConnection::open(socket, deadline).and_then(|connection| connection.greet()) {
        Ok(Ok(version)) => Greeting::Answered { version },
        Ok(Err(Message::Error { code, text })) => {
            Greeting::Failed(format!("the daemon answered error {}: {text}", code.0))
        }
        Ok(Err(other)) => Greeting::Failed(format!(
            "expected a greeting, found message kind {}",
            other.kind()
        )),
        Err(Failure::Version { found, expected }) => Greeting::OtherProtocol { found, expected },
        Err(failure) => failure
            .text(socket, timeout)
            .map_or(Greeting::Absent, Greeting::Failed),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixListener;

    use tetris_wire::daemon::{ErrorCode, PROTOCOL};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Greets a listener that answers with these bytes.
    fn greeted(answer: &[u8]) -> Greeting {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("daemon");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(answer).unwrap();
                // Until the client hangs up: a close before it has written could be an error for it.
                let _closed = std::io::copy(&mut stream, &mut std::io::sink());
            });
            greet(&socket, TIMEOUT)
        })
    }

    fn with_preamble(message: &Message) -> Vec<u8> {
        [PROTOCOL.preamble().as_slice(), &message.encode()].concat()
    }

    #[test]
    fn a_daemon_says_its_version() {
        let daemon = "9.8.7".to_owned();
        let version = daemon.clone();
        let answer = with_preamble(&Message::HelloAck { daemon });
        assert_eq!(greeted(&answer), Greeting::Answered { version });
    }

    #[test]
    fn another_protocol_is_not_taken_for_no_daemon() {
        let mut preamble = PROTOCOL.preamble();
        preamble[8] = 7;
        let expected = PROTOCOL.version;
        let other = Greeting::OtherProtocol { found: 7, expected };
        assert_eq!(greeted(&preamble), other);
    }

    #[test]
    fn strangers_and_errors_are_told_as_such() {
        let error = with_preamble(&Message::Error {
            code: ErrorCode::UNAVAILABLE,
            text: "ends".to_owned(),
        });
        for answer in [&b"HTTP/1.1 400 Bad Request"[..], &error] {
            assert!(matches!(greeted(answer), Greeting::Failed(_)));
        }
    }

    #[test]
    fn a_dead_socket_and_none_are_no_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("daemon");
        assert_eq!(greet(&socket, TIMEOUT), Greeting::Absent);
        drop(UnixListener::bind(&socket).unwrap());
        assert_eq!(greet(&socket, TIMEOUT), Greeting::Absent);
    }
}
