//! Connections and requests to all ports: idle ones, halves, requests byte by byte, noise, and many whole ones.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

use super::Rounds;
use crate::line::Tally;
use crate::model;

const IDLE: u64 = 400;
/// Addresses from which it connects: as many as a node has pods. None is the kubelet's.
const ADDRESSES: u64 = 110;
const REQUESTS: usize = 50;
const PATHS: [&str; 6] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/status?models=true",
    "/inventory/objects",
    "/../../etc/passwd",
];

pub(super) fn run(rounds: &Rounds<'_>) -> Result<()> {
    rounds.repeat(Duration::from_secs(1), |round, tally| {
        let mut connections = Vec::new();
        for page in &rounds.context.pages {
            for number in 0..IDLE {
                match idle(page, round * IDLE + number) {
                    Ok(stream) => {
                        tally.count("connected");
                        connections.push(stream);
                    }
                    Err(error) => tally.count(format!("{:?}", error.kind())),
                }
            }
            ask(page, tally);
        }
        // One more byte for each that the server still has.
        for stream in &mut connections {
            let _hung_up = stream.write_all(b"x");
        }
        Ok(connections)
    })
}

/// Connects to a port from the address of a pod.
pub(super) fn connected(page: &SocketAddr, number: u64) -> std::io::Result<TcpStream> {
    let SocketAddr::V4(page) = page else {
        return TcpStream::connect(page);
    };
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let made = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let stream = TcpStream::from(made);
    let limit = Some(Duration::from_secs(5));
    stream.set_write_timeout(limit)?;
    stream.set_read_timeout(limit)?;
    if page.ip().is_loopback() {
        let pod = [127, 0, 1, (1 + number % ADDRESSES) as u8];
        bind(&stream, &SocketAddrV4::new(pod.into(), 0))?;
    }
    connect(&stream, page)?;
    Ok(stream)
}

fn idle(page: &SocketAddr, number: u64) -> std::io::Result<TcpStream> {
    let mut stream = connected(page, number)?;
    let sent = match number % 4 {
        0 => Ok(()),
        1 => stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: node\r\nx: "),
        2 => stream.write_all(&model::bytes(number, 2048)),
        _ => stream.write_all(
            b"POST /metrics HTTP/1.1\r\nhost: node\r\ncontent-length: 4294967296\r\n\r\n",
        ),
    };
    // A server may hang up.
    drop(sent);
    Ok(stream)
}

fn ask(page: &SocketAddr, tally: &mut Tally) {
    let until = Instant::now() + Duration::from_secs(2);
    for (number, path) in (0..REQUESTS).zip(PATHS.iter().cycle()) {
        if Instant::now() > until {
            tally.add("slow", (REQUESTS - number) as u64);
            return;
        }
        let answered = || -> std::io::Result<String> {
            let mut stream = connected(page, number as u64)?;
            let request = format!("GET {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n");
            stream.write_all(request.as_bytes())?;
            let mut status = [0; 12];
            stream.read_exact(&mut status)?;
            Ok(String::from_utf8_lossy(status.get(9..).unwrap_or_default()).into_owned())
        };
        tally.count(match answered() {
            Ok(status) => format!("status-{status}"),
            Err(error) => format!("{:?}", error.kind()),
        });
    }
}
