//! More of everything than the daemon's socket should have to bear.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tetris_agent::daemon::{DaemonClient, DaemonError};
use tetris_wire::daemon::{Message, PROTOCOL};

use super::tally::Tally;

const CONNECTIONS: u64 = 10_000;
const ASKS: u64 = 200;
const SOME_BYTES: u64 = 64 << 20;
const SOME_INODES: u32 = 400;
const ROUNDS: u64 = 300;
const ANSWER: Duration = Duration::from_secs(30);

/// All of it, one after the other.
pub fn run(root: &Path) -> Result<()> {
    let socket = root.join("daemon");
    garbage(&socket)?;
    rooms(&socket)?;
    connections(&socket)
}

/// Bytes that are no protocol, and beginnings of what is.
fn garbage(socket: &Path) -> Result<()> {
    let mut tally = Tally::new("garbage");
    let noise = *blake3::hash(b"noise").as_bytes();
    let hello = Message::Hello { pid: 1 }.encode();
    let too_long = [u32::MAX.to_le_bytes().as_slice(), &[3]].concat();
    for round in 0..ROUNDS {
        let bytes = match round % 5 {
            0 => noise.repeat(100),
            1 => PROTOCOL.preamble()[..7].to_vec(),
            2 => [PROTOCOL.preamble().as_slice(), &hello[..3]].concat(),
            3 => [PROTOCOL.preamble().as_slice(), &hello, &too_long].concat(),
            _ => [PROTOCOL.preamble().as_slice(), &hello, &noise].concat(),
        };
        let Ok(mut stream) = UnixStream::connect(socket) else {
            tally.count("not connected");
            continue;
        };
        let sent = stream.write_all(&bytes);
        tally.count(if sent.is_ok() { "sent" } else { "hung up" });
        // What is unfinished is left so for a moment, and then gone.
        stream.set_read_timeout(Some(Duration::from_millis(1)))?;
        let _answer = stream.read(&mut [0; 64]);
    }
    Ok(tally.say()?)
}

/// All that could be, and what there could be room for, again and again.
fn rooms(socket: &Path) -> Result<()> {
    let mut tally = Tally::new("room");
    for round in 0..ASKS {
        let (bytes, inodes) = if round % 2 == 0 {
            (u64::MAX, u32::MAX)
        } else {
            (SOME_BYTES, SOME_INODES)
        };
        tally.count(
            match DaemonClient::new(socket, ANSWER).make_room(bytes, inodes) {
                Ok(_) => "made",
                Err(DaemonError::RoomRefused(_)) => "refused",
                Err(_) => "no answer",
            },
        );
    }
    Ok(tally.say()?)
}

/// As many as possible at a time, and of these as many as possible greeted.
fn connections(socket: &Path) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let mut tally = Tally::new("connection");
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        match UnixStream::connect(socket) {
            Ok(mut stream) => {
                tally.count("connected");
                let _hung_up = stream.write_all(&PROTOCOL.preamble());
                connections.push(stream);
            }
            Err(error) => tally.count(error.kind().to_string()),
        }
    }
    Ok(tally.say()?)
}
