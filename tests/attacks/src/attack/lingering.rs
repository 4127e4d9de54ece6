//! Sockets whose last close waits: a TCP socket with a full send buffer and SO_LINGER, whose other side no one reads.
//!
//! The thread that closes the last descriptor of one waits for as long as its maker said.

use std::io::{ErrorKind, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Result;
use nix::libc::linger;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Linger, RcvBuf, SndBuf};
use tetris_agent::ManifestKind;
use tetris_wire::Closer;
use tetris_wire::daemon::{Message, PROTOCOL};

use super::Rounds;
use crate::client::{Raw, greeting};

/// Longer than anybody waits.
const LINGER_SECS: i32 = 3600;
/// Sockets passed in a round.
const SOCKETS: usize = 40;
/// Sockets that a client of the daemon's sees as one more message after it has said hello.
const PAUSE: Duration = Duration::from_secs(2);

/// Makes such sockets. Reads from none of them.
struct Sink {
    listener: TcpListener,
    unread: Vec<TcpStream>,
    closer: Closer,
}

impl Sink {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // Accepted sockets have it too.
        setsockopt(&listener, RcvBuf, &2048)?;
        Ok(Self {
            listener,
            unread: Vec::new(),
            closer: Closer::new(1),
        })
    }

    fn lingering(&mut self) -> Result<OwnedFd> {
        let mut stream = TcpStream::connect(self.listener.local_addr()?)?;
        self.unread.push(self.listener.accept()?.0);
        setsockopt(&stream, SndBuf, &2048)?;
        stream.set_nonblocking(true)?;
        loop {
            match stream.write(&[7; 4096]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let wait = linger {
            l_onoff: 1,
            l_linger: LINGER_SECS,
        };
        setsockopt(&stream, Linger, &wait)?;
        Ok(stream.into())
    }
}

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    rounds.repeat(PAUSE, |_, tally| {
        let mut sink = Sink::new()?;
        let mut open = Vec::new();
        for way in 0..SOCKETS {
            let Ok(to) = Raw::connect(&rounds.context.store) else {
                tally.count("not-connected");
                continue;
            };
            let socket = sink.lingering()?;
            // Where the server is faster, the last close is here.
            let stays = sink.closer.clone().attend(|| {
                let stays = send(&to, &socket, way);
                drop(socket);
                stays
            });
            tally.count("passed");
            open.extend(stays.then_some(to));
        }
        Ok((sink, open))
    })
}

/// Passes the socket in one of the ways in which a server can come to close it. Returns true if the client stays.
fn send(to: &Raw, own: &OwnedFd, way: usize) -> bool {
    let kind = ManifestKind::Safetensors;
    let sink = own.as_fd();
    match way % 5 {
        // Where none are expected.
        0 => to.send(&PROTOCOL.preamble(), &[sink]),
        // More than are expected.
        1 => {
            to.send(&greeting(), &[]);
            to.ask_to_ingest(kind, &[sink, sink, sink]);
        }
        // With a message that carries none.
        2 => {
            let (bytes, inodes) = (4096, 0);
            let ask = Message::MakeRoom { bytes, inodes }.encode();
            to.send(&greeting(), &[]);
            to.send(&ask, &[sink]);
        }
        // Left unread: the client has gone before the server comes to it.
        3 => {
            to.send(&greeting(), &[sink]);
            return false;
        }
        // In the queue of a socket that is in a queue.
        _ => {
            if let Ok((one, other)) = UnixStream::pair() {
                Raw(one).send(b"x", &[sink]);
                to.send(&PROTOCOL.preamble(), &[other.as_fd()]);
            }
        }
    }
    true
}
