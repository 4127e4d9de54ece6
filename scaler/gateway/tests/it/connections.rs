//! Thousands of connections of one client: others notice nothing.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::gateway::function;
use crate::instance::{Instance, Mode};
use crate::replica::{Replica, free_address};

const CONNECTIONS: usize = 10_000;
/// The usual limit of one client.
const LIMIT: usize = 4_096;
/// Fewest requests of the other client.
const OTHERS: usize = 300;
const OTHER: &str = "127.0.0.9:0";

/// Number of connections that the limit on descriptors allows. Each gateway has its own process.
fn connections() -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    // A gateway with few descriptors gives one client nine of sixteen.
    let allowed = usize::try_from(hard / 2).unwrap();
    if allowed < CONNECTIONS {
        let said =
            format!("{allowed} connections in place of {CONNECTIONS}: RLIMIT_NOFILE is {hard}\n");
        drop(std::io::stderr().write_all(said.as_bytes()));
    }
    allowed.min(CONNECTIONS)
}

async fn connect(from: &str, gateway: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(from.parse().unwrap())?;
    socket.connect(gateway).await
}

/// Answers of the other client: by turns on a connection that stays, and on a new one.
async fn ask_as_other(gateway: SocketAddr, over: Arc<AtomicBool>) -> usize {
    let request = b"GET /functions/embed/x HTTP/1.1\r\nhost: g\r\n\r\n";
    let mut stays = connect(OTHER, gateway).await.unwrap();
    let mut answers = 0;
    while answers < OTHERS || !over.load(Ordering::Relaxed) {
        let mut new = connect(OTHER, gateway).await.unwrap();
        for stream in [&mut stays, &mut new] {
            stream.write_all(request).await.unwrap();
            assert!(is_served(stream).await, "after {answers} answers");
            answers += 1;
        }
    }
    answers
}

/// Reads the answer `one`. False if the connection ends without one.
async fn is_served(stream: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\none") {
        if !matches!(stream.read_buf(&mut answer).await, Ok(1..)) {
            return false;
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

/// Opens as many connections as the limit on descriptors allows, each with half of a head, while another
/// client asks. Then ends the heads, and returns the number of connections and of their answers.
async fn attack(limits: &str) -> (usize, usize) {
    let count = connections();
    let instance = Instance::start("one", Mode::Answer);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    let function = function("embed", "queue = 100000", &[instance.address], 64);
    std::fs::write(
        &path,
        format!("[limits]\n{limits}\n[timeouts]\nhead = \"1h\"\n{function}"),
    )
    .unwrap();
    let gateway = Replica::start(&path, free_address(), free_address());
    // Not from the address whose connections are counted.
    while connect(OTHER, gateway.address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let others = tokio::spawn(ask_as_other(gateway.address, Arc::clone(&over)));
    let mut all = Vec::new();
    while all.len() < count {
        let mut stream = connect("127.0.0.1:0", gateway.address).await.unwrap();
        // The gateway may have closed it.
        drop(
            stream
                .write_all(b"GET /functions/embed/x HTTP/1.1\r\nho")
                .await,
        );
        all.push(stream);
    }
    over.store(true, Ordering::Relaxed);
    let answers = others.await.unwrap();
    assert!(answers >= OTHERS);
    let mut served = 0;
    for stream in &mut all {
        drop(stream.write_all(b"st: g\r\n\r\n").await);
        served += usize::from(is_served(stream).await);
    }
    (count, served)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_notice_nothing_of_one_clients_10000_open_connections() {
    let (count, served) = attack("connections_per_client = 20000").await;
    assert_eq!(served, count, "all of them are open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_notice_nothing_of_connections_beyond_a_clients_limit() {
    let (count, served) = attack("").await;
    assert_eq!(served, count.min(LIMIT), "the rest was closed");
}
