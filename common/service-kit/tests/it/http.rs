//! The server on real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use tetris_service_kit::http::{ConnectionLimits, Plain, Transport, listen, serve, text};
use tetris_service_kit::pace::Pace;
use tetris_service_kit::shutdown::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// For limits that must not be what ends a test.
const LONG: Duration = Duration::from_hours(1);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: kit\r\n\r\n";

const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 16,
    per_address: 16,
    head: LONG,
    pace: ConnectionLimits::PACE,
    stop: LONG,
};

/// A server that runs, and the order to stop it.
struct Running {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    ended: JoinHandle<()>,
}

impl Running {
    async fn start(transport: impl Transport, router: Router, limits: ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let ended = tokio::spawn(serve(listener, transport, router, limits, until(stopped)));
        Self {
            address,
            stop,
            ended,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

fn pages() -> Router {
    Router::new().route("/", get(async || "here"))
}

/// Sends a request and returns the answer up to `here`, or all that came before the end.
async fn ask(stream: &mut TcpStream) -> String {
    stream.write_all(REQUEST).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"here") {
        match stream.read_buf(&mut answer).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_plain_connection_serves_request_after_request() {
    let server = Running::start(Plain, pages(), LIMITS).await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        assert!(ask(&mut client).await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn a_client_without_a_head_is_cut_and_others_are_served() {
    let head = Duration::from_millis(50);
    let server = Running::start(Plain, pages(), ConnectionLimits { head, ..LIMITS }).await;
    let mut silent = server.connect().await;
    assert_eq!(silent.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    assert!(ask(&mut server.connect().await).await.ends_with("here"));
}

#[tokio::test]
async fn a_newcomer_displaces_the_oldest_connection_of_its_address() {
    let limits = ConnectionLimits {
        per_address: 1,
        ..LIMITS
    };
    let server = Running::start(Plain, pages(), limits).await;
    let mut first = server.connect().await;
    assert!(ask(&mut first).await.ends_with("here"));
    let mut second = server.connect().await;
    assert!(ask(&mut second).await.ends_with("here"));
    assert_eq!(first.read_to_end(&mut Vec::new()).await.unwrap_or(0), 0);
    assert!(ask(&mut second).await.ends_with("here"));
}

#[tokio::test]
async fn a_request_that_arrived_is_answered_after_the_order_to_stop() {
    let (arrived, mut arrivals) = mpsc::channel(1);
    let (answer, answered) = watch::channel(false);
    let page = async move || {
        arrived.send(()).await.unwrap();
        until(answered).await;
        "here"
    };
    let server = Running::start(Plain, Router::new().route("/", get(page)), LIMITS).await;
    let mut client = server.connect().await;
    let asking = tokio::spawn(async move { ask(&mut client).await });
    arrivals.recv().await.unwrap();
    server.stop.send_replace(true);
    answer.send_replace(true);
    assert!(asking.await.unwrap().ends_with("here"));
    server.ended.await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_no_server_from_ending() {
    let limits = ConnectionLimits {
        stop: Duration::from_millis(50),
        ..LIMITS
    };
    let (arrived, mut arrivals) = mpsc::channel(1);
    let page = async move || {
        arrived.send(()).await.unwrap();
        std::future::pending::<&str>().await
    };
    let server = Running::start(Plain, Router::new().route("/", get(page)), limits).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    arrivals.recv().await.unwrap();
    server.stop.send_replace(true);
    server.ended.await.unwrap();
    assert!(!ask(&mut client).await.contains("200"));
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_that_names_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = listen("metrics-listen", address)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("--metrics-listen {address}: ")),
        "{error}"
    );
    assert!(error.ends_with("with a port that is free"), "{error}");
}

#[tokio::test]
async fn texts_end_with_a_line_feed() {
    let body = text(axum::http::StatusCode::OK, "ok").into_body();
    let body = axum::body::to_bytes(body, 16).await.unwrap();
    assert_eq!(&body[..], b"ok\n");
}

/// Idle connections of one address take all places, and probes of another and of the same address
/// are answered all the same.
#[tokio::test]
async fn idle_connections_keep_no_newcomer_out() {
    let server = Running::start(Plain, pages(), LIMITS).await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(server.connect().await);
        if idle.len() % 50 == 0 {
            let mut probe = server.connect().await;
            assert!(ask(&mut probe).await.ends_with("here"));
        }
    }
    assert!(ask(&mut server.connect().await).await.ends_with("here"));
}

#[tokio::test]
async fn a_client_of_another_address_keeps_its_connection() {
    let server = Running::start(Plain, pages(), LIMITS).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(server.address).await.unwrap();
    assert!(ask(&mut other).await.ends_with("here"));
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(server.connect().await);
    }
    assert!(ask(&mut server.connect().await).await.ends_with("here"));
    assert!(ask(&mut other).await.ends_with("here"));
}

/// A page of 64 MiB: more than the kernel keeps for a client.
fn large_page() -> Router {
    Router::new().route("/", get(async || vec![b'x'; 64 << 20]))
}

const PACE: Pace = Pace {
    grace: Duration::from_millis(300),
    bytes_per_second: 1 << 20,
};

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut_and_one_that_reads_is_not() {
    let limits = ConnectionLimits {
        pace: PACE,
        ..LIMITS
    };
    let server = Running::start(Plain, large_page(), limits).await;
    let mut idle = server.connect().await;
    idle.write_all(REQUEST).await.unwrap();
    // The server's end of the connection is closed once it gives up: then a write fails, and not before.
    while idle.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Pauses shorter than the grace cost nothing.
    let mut reader = server.connect().await;
    reader
        .write_all(b"GET / HTTP/1.1\r\nHost: kit\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let (mut read, mut buffer) = (0, vec![0; 4 << 20]);
    loop {
        match reader.read(&mut buffer).await.unwrap() {
            0 => break,
            some => read += some,
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(read > 64 << 20, "{read} bytes");
}

#[tokio::test]
async fn a_client_that_sends_a_body_in_drips_is_cut() {
    let limits = ConnectionLimits {
        pace: PACE,
        ..LIMITS
    };
    let taken = Router::new().route("/", post(async |body: String| body));
    let server = Running::start(Plain, taken, limits).await;
    let mut client = server.connect().await;
    let head = b"POST / HTTP/1.1\r\nHost: kit\r\nContent-Length: 1000\r\n\r\n";
    client.write_all(head).await.unwrap();
    let mut dripped = 0;
    let answer = loop {
        let mut answer = [0; 64];
        let wait = Duration::from_millis(50);
        match tokio::time::timeout(wait, client.read(&mut answer)).await {
            Ok(answered) => break answered.map(|length| answer[..length].to_vec()),
            Err(_) => drop(client.write_all(b"x").await),
        }
        dripped += 1;
        assert!(dripped < 900, "drips are taken for ever");
    };
    // The answer announces it, or the connection ends.
    let answer = String::from_utf8(answer.unwrap_or_default()).unwrap();
    assert!(!answer.contains(" 200 "), "{answer}");
}
