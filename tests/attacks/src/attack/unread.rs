//! Clients that do not read their answers, and ones that send a byte each second, at the store's socket and at all ports.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tetris_store_layout::{Digest, ManifestId, ObjectRef, TensorId};
use tetris_wire::daemon::{DerivedClaim, Message};

use super::{Rounds, http};
use crate::client::{Raw, greeting};
use crate::line::Tally;

/// Connections of each kind that are begun in a round.
const BEGUN: usize = 2;
/// Connections of each kind at a time.
const MOST: usize = 40;
/// Time beyond a limit that a busy machine may take.
const SLACK: Duration = Duration::from_secs(30);
/// Time within which a connection has ended that was never served.
const REFUSED: Duration = Duration::from_secs(1);
/// Requests whose answers fill the buffer of a socket.
const REQUESTS: usize = 2_000;

/// A way of being slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slow {
    /// A message of the store's socket, a byte each second.
    Message,
    /// Requests of the store's socket whose answers no one reads.
    Answers,
    /// The head of a request for a page, a byte each second.
    Head,
    /// A page that no one reads.
    Page,
}

impl Slow {
    const ALL: [Self; 4] = [Self::Message, Self::Answers, Self::Head, Self::Page];

    fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Answers => "answers",
            Self::Head => "head",
            Self::Page => "page",
        }
    }

    /// Longest time that the daemon keeps such a connection. At the store's socket it is 30 s for a message, here the
    /// preamble, the greeting and a claim, and 30 s for an answer (LAYOUT.md 11.6). A request for a page has 5 s, its
    /// answer 30 s.
    fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Message => 90,
            Self::Answers => 60,
            Self::Head => 5,
            Self::Page => 35,
        })
    }
}

/// A connection.
struct Held {
    slow: Slow,
    connection: Connection,
    begun: Instant,
    /// Bytes that go one at a time.
    bytes: std::vec::IntoIter<u8>,
}

enum Connection {
    Store(Raw),
    Page(TcpStream),
}

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    let mut connections: Vec<Held> = Vec::new();
    rounds.repeat(Duration::from_secs(1), |round, tally| {
        for slow in Slow::ALL {
            let open = connections
                .iter()
                .filter(|connection| connection.slow == slow)
                .count();
            for number in 0..BEGUN.min(MOST.saturating_sub(open)) as u64 {
                begin(
                    rounds,
                    slow,
                    round * BEGUN as u64 + number,
                    &mut connections,
                    tally,
                );
            }
        }
        let mut open = Vec::new();
        for mut connection in connections.drain(..) {
            let took = connection.begun.elapsed();
            if connection.goes_on()? {
                let slow = connection.slow;
                if took > slow.limit() + SLACK {
                    rounds.wrong(format!("{slow:?} is held for {took:?}"))?;
                }
                open.push(connection);
            } else if took > REFUSED {
                // In steps of 5 s.
                let seconds = took.as_secs().div_ceil(5) * 5;
                let name = connection.slow.name();
                tally.count(format!("{name}-ended"));
                tally.count(format!("{name}-ended-within-{seconds}-s"));
            } else {
                tally.count(format!("{}-refused", connection.slow.name()));
            }
        }
        connections = open;
        Ok(())
    })
}

/// Begins connections of a kind: one to the store's socket, or one to each port.
fn begin(rounds: &Rounds<'_>, slow: Slow, number: u64, held: &mut Vec<Held>, tally: &mut Tally) {
    let mut hold = |connection: Connection, bytes: Vec<u8>| {
        held.push(Held {
            slow,
            connection,
            begun: Instant::now(),
            bytes: bytes.into_iter(),
        });
    };
    let mut not_connected = || tally.count(format!("{}-not-connected", slow.name()));
    match slow {
        Slow::Message => match Raw::connect(&rounds.context.store) {
            Ok(raw) => hold(Connection::Store(raw), long_message()),
            Err(_) => not_connected(),
        },
        Slow::Answers => match Raw::greeted(&rounds.context.store) {
            Ok(raw) => {
                fill(&raw);
                hold(Connection::Store(raw), Vec::new());
            }
            Err(_) => not_connected(),
        },
        Slow::Head | Slow::Page => {
            for page in &rounds.context.pages {
                match begin_page(page, slow, number) {
                    Ok((stream, bytes)) => hold(Connection::Page(stream), bytes),
                    Err(_) => not_connected(),
                }
            }
        }
    }
}

fn begin_page(page: &SocketAddr, slow: Slow, number: u64) -> std::io::Result<(TcpStream, Vec<u8>)> {
    let mut stream = http::connected(page, number)?;
    if slow == Slow::Head {
        let fields = "x: y\r\n".repeat(100);
        return Ok((stream, format!("GET /metrics HTTP/1.1\r\n{fields}").into()));
    }
    rustix::net::sockopt::set_socket_recv_buffer_size(&stream, 1)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: node\r\n\r\n")?;
    Ok((stream, Vec::new()))
}

/// A greeting, and the longest message of a client.
fn long_message() -> Vec<u8> {
    let claim = DerivedClaim {
        object: ObjectRef::of(b"object"),
        source: TensorId::of(b"source"),
        version: 1,
        transform: "x".repeat(4_000),
    };
    [greeting(), Message::RecordDerived(claim).encode()].concat()
}

/// Sends requests, each after the answer to the one before, until no answer fits into the socket any more.
fn fill(raw: &Raw) {
    let manifest = ManifestId(Digest([7; 32]));
    let request = Message::AskWarm { manifest }.encode();
    let unread = || rustix::io::ioctl_fionread(&raw.0).unwrap_or_default();
    for _ in 0..REQUESTS {
        let before = unread();
        raw.send(&request, &[]);
        let begun = Instant::now();
        while unread() == before {
            if begun.elapsed() > Duration::from_millis(200) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl Held {
    /// Sends the next byte, if there is one. Returns false if the daemon has ended the connection.
    fn goes_on(&mut self) -> Result<bool> {
        let byte = self.bytes.next();
        let sent = match &mut self.connection {
            Connection::Store(raw) => byte.is_none_or(|byte| raw.0.write_all(&[byte]).is_ok()),
            Connection::Page(stream) => {
                // A byte more than the request shows an end that nothing else shows without reading.
                stream.write_all(&[byte.unwrap_or(b'x')]).is_ok()
            }
        };
        Ok(sent && !has_ended(self.connection.as_fd())?)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Store(raw) => raw.0.as_fd(),
            Self::Page(stream) => stream.as_fd(),
        }
    }
}

/// Returns true if the peer has closed a connection, read or unread.
fn has_ended(connection: BorrowedFd<'_>) -> Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(connection, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default()))?;
    let ends = PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR;
    Ok(fds.iter().any(|fd| fd.revents().intersects(ends)))
}
