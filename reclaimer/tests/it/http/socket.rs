//! The server on a real socket: what clients see, and what slow ones cannot do.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tetris_node::http::{Limits, PageSource as _, Pages, serve};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::http::fixtures::{Daemon, model, node};

/// Nothing here takes long; this is for machines that are busy.
const PATIENCE: Duration = Duration::from_mins(1);
/// For limits that must not be what ends a test.
const LONG: Duration = Duration::from_hours(1);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n";
const UNFINISHED: &[u8] = b"GET /healthz HTTP/1.1\r\nHo";

/// A server on its own threads; clients are plain sockets.
struct Server {
    runtime: Runtime,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    fn start(daemon: &Daemon, limits: Option<Limits>) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let pages = Pages::new(daemon.shared.clone()).all();
        let limits = limits.unwrap_or_default();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap() };
        let task = runtime.spawn(serve(listener, limits.transport(), pages, limits, stopped));
        Self {
            runtime,
            address,
            stop,
            task,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        stream
    }

    /// One request on its own connection, and all that comes back.
    fn ask(&self, path: &str, more: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n{more}\r\n");
        String::from_utf8(until_cut(self.send(request.as_bytes()))).unwrap()
    }

    fn lives(&self) -> bool {
        self.ask("/healthz", "").starts_with("HTTP/1.1 200 OK")
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        let ended = async { timeout(PATIENCE, self.task).await };
        self.runtime
            .block_on(ended)
            .expect("still serving")
            .unwrap();
    }
}

/// Waits until the server has ended the connection, and returns what it sent before.
fn until_cut(mut stream: TcpStream) -> Vec<u8> {
    let mut sent = Vec::new();
    if let Err(err) = stream.read_to_end(&mut sent) {
        // A reset is as good an end as any.
        assert_ne!(err.kind(), std::io::ErrorKind::WouldBlock, "still open");
    }
    sent
}

#[test]
fn pages_come_over_a_socket_one_per_connection() {
    let server = Server::start(&Daemon::with(node()), None);
    let inventory = server.ask("/inventory", "");
    let (head, body) = inventory.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("connection: close"), "{head}");
    assert!(body.starts_with("{\"version\":1,"), "{body}");
    let tag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    let unchanged = server.ask("/inventory", &format!("If-None-Match: {tag}\r\n"));
    assert!(
        unchanged.starts_with("HTTP/1.1 304 Not Modified\r\n"),
        "{unchanged}"
    );
    assert!(unchanged.ends_with("\r\n\r\n"), "{unchanged}");
    assert!(server.ask("/metrics", "").ends_with("# EOF\n"));
    server.stop();
}

#[test]
fn slow_clients_keep_nobody_out() {
    let limits = Limits {
        per_address: 8,
        request: LONG,
        ..Limits::default()
    };
    let server = Server::start(&Daemon::with(node()), Some(limits));
    let slow: Vec<TcpStream> = (0..7).map(|_| server.send(UNFINISHED)).collect();
    assert!(server.lives());
    for mut stream in slow {
        stream.write_all(b"st: node\r\n\r\n").unwrap();
        assert!(until_cut(stream).starts_with(b"HTTP/1.1 200 OK"));
    }
    server.stop();
}

#[test]
fn a_request_that_takes_too_long_is_cut_off_even_if_it_trickles() {
    let limits = Limits {
        request: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::start(&Daemon::with(node()), Some(limits));
    let silent = server.connect();
    let mut trickling = server.connect();
    let begun = Instant::now();
    while trickling.write_all(b"x").is_ok() {
        assert!(begun.elapsed() < PATIENCE, "still open");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(until_cut(silent).is_empty());
    server.stop();
}

#[test]
fn an_answer_that_nobody_reads_is_cut_off() {
    let mut status = node();
    // More than the kernel takes for one connection.
    status.stores[0].models = (0..100_000).map(|n| model(n, 1, 1, 0)).collect();
    let limits = Limits {
        // Making the answer takes long on a busy machine.
        request: LONG,
        answer: Duration::from_secs(3),
        ..Limits::default()
    };
    let server = Server::start(&Daemon::with(status), Some(limits));
    let mut unread = server.send(b"GET /inventory HTTP/1.1\r\nHost: node\r\n\r\n");
    unread.read_exact(&mut [0]).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    // All that the kernel has kept meanwhile, and not the rest.
    let (mut read, length) = (Vec::new(), 100_000 * 100);
    let ended = unread.read_to_end(&mut read);
    assert!(ended.is_err() || read.len() < length, "{}", read.len());
    assert!(server.lives());
    server.stop();
}

#[test]
fn one_address_has_no_more_than_its_share() {
    let limits = Limits {
        per_address: 2,
        request: LONG,
        ..Limits::default()
    };
    let server = Server::start(&Daemon::with(node()), Some(limits));
    let (first, second) = (server.connect(), server.connect());
    let third = server.connect();
    assert!(until_cut(first).is_empty());
    for mut stream in [second, third] {
        stream.write_all(REQUEST).unwrap();
        assert!(until_cut(stream).starts_with(b"HTTP/1.1 200 OK"));
    }
    server.stop();
}

#[test]
fn stopping_waits_for_no_client_longer_than_its_limit() {
    let limits = Limits {
        request: LONG,
        stop: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = Server::start(&Daemon::with(node()), Some(limits));
    let stuck = server.send(UNFINISHED);
    assert!(server.lives());
    server.stop();
    drop(stuck);
}
