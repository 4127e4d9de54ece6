//! Servers for other hosts and pods, with clients that may not read, and clients that only connect.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tetris_node::http::{Gate, Limits, PageSource as _, Pages, SERVICE, gated, serve};
use tetris_service_kit::bound_tls::{BoundClient, BoundTls};
use tetris_service_kit::token_reviews::{ReviewLimits, TokenReviews};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::http::fixtures::{Daemon, node};
use tetris_test_support::api::Api;

const SCALER: &str = "system:serviceaccount:tetris-system:tetris-scaler";
const OTHER: &str = "system:serviceaccount:blue:default";
const PAGES: [&str; 5] = [
    "/status",
    "/inventory",
    "/inventory/objects",
    "/metrics",
    "/nowhere",
];

/// The servers of one daemon, and its API server.
struct Servers {
    api: Api,
    metrics: SocketAddr,
    probes: SocketAddr,
    inventory: SocketAddr,
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn client_of(address: SocketAddr) -> kube::Client {
    let url = format!("http://{address}").parse().unwrap();
    let mut config = kube::Config::new(url);
    // As the daemon's own client.
    config.default_retry = false;
    kube::Client::try_from(config).unwrap()
}

impl Servers {
    async fn start(access: ReviewLimits) -> Self {
        let daemon = Daemon::with(node());
        let pages = Pages::new(daemon.shared);
        let api = Api::new();
        let client = client_of(api.serve().await);
        let limits = Limits::default();
        let tls = BoundTls::try_new(SERVICE, Duration::from_secs(5), limits.transport()).unwrap();
        let reviews = TokenReviews::new(client, tls.audience());
        let gate = Gate::new(reviews, [SCALER.to_owned()], access);
        let (on_metrics, metrics) = listener().await;
        let (on_probes, probes) = listener().await;
        let (on_inventory, inventory) = listener().await;
        let of_probes = Limits::of_probes();
        let never = std::future::pending;
        let (plain, quick) = (limits.transport(), of_probes.transport());
        tokio::spawn(serve(on_metrics, plain, pages.metrics(), limits, never()));
        tokio::spawn(serve(on_probes, quick, pages.probes(), of_probes, never()));
        let inventory_pages = gated(pages.tensors(), gate);
        tokio::spawn(serve(on_inventory, tls, inventory_pages, limits, never()));
        Self {
            api,
            metrics,
            probes,
            inventory,
        }
    }

    /// Asks over TLS. Returns the answer, and the audience of the server.
    async fn ask(&self, path: &str, token: Option<&str>) -> (String, String) {
        let client = BoundClient::try_new(SERVICE).unwrap();
        let stream = TcpStream::connect(self.inventory).await.unwrap();
        let bound = client.connect(stream, self.inventory.ip()).await.unwrap();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let answer = answer(bound.stream, path, &token.unwrap_or_default()).await;
        (answer, bound.audience)
    }

    /// Makes the API server know a token of `account` for this daemon.
    async fn give(&self, token: &str, account: &str) {
        let (_, audience) = self.ask("/", None).await;
        self.api.add_token(token, account, &audience);
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, more: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // The daemon ends the connection, over TLS without a farewell at times.
    let _ended = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

/// Asserts that an answer has this status, and nothing in its body.
fn require_empty(answer: &str, status: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").expect(answer);
    assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    assert_eq!(body, "");
}

#[tokio::test]
async fn the_inventory_is_for_named_accounts_with_a_token_for_this_daemon() {
    let access = ReviewLimits {
        put_off: Duration::ZERO,
        burst: 100,
        ..ReviewLimits::default()
    };
    let servers = Servers::start(access).await;
    servers.give("scaler", SCALER).await;
    servers.give("other", OTHER).await;
    // The scaler's own, for another daemon, as one that took that daemon's address would have it.
    let elsewhere = "tetris-node/sha256:0123";
    servers.api.add_token("stolen", SCALER, elsewhere);
    servers
        .api
        .add_token("of-the-api-server", SCALER, "https://kubernetes");
    for page in PAGES {
        require_empty(&servers.ask(page, None).await.0, "401");
        for token in ["nonsense", "stolen", "of-the-api-server"] {
            require_empty(&servers.ask(page, Some(token)).await.0, "401");
        }
        require_empty(&servers.ask(page, Some("other")).await.0, "403");
    }
    let (found, _) = servers.ask("/inventory/objects", Some("scaler")).await;
    assert!(found.starts_with("HTTP/1.1 200 OK"), "{found}");
    assert!(found.contains("\"objects\":["), "{found}");
    let (missing, _) = servers.ask("/metrics", Some("scaler")).await;
    assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
}

#[tokio::test]
async fn plain_http_gets_nothing_of_the_inventory() {
    let servers = Servers::start(ReviewLimits::default()).await;
    servers.give("scaler", SCALER).await;
    let mut stream = TcpStream::connect(servers.inventory).await.unwrap();
    let token = "Authorization: Bearer scaler\r\n";
    let request = format!("GET /inventory HTTP/1.1\r\nHost: node\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ended = stream.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("stores"));
}

#[tokio::test]
async fn without_an_api_server_admitted_clients_go_on_for_a_while_and_no_longer() {
    let access = ReviewLimits {
        good_for: Duration::from_secs(2),
        renew_after: Duration::from_millis(100),
        put_off: Duration::ZERO,
        ..ReviewLimits::default()
    };
    let servers = Servers::start(access).await;
    servers.give("scaler", SCALER).await;
    let page = "/inventory";
    let begun = Instant::now();
    let (admitted, _) = servers.ask(page, Some("scaler")).await;
    servers.api.set_down(true);
    assert!(admitted.starts_with("HTTP/1.1 200"), "{admitted}");
    let mut times = 0;
    loop {
        let (answer, _) = servers.ask(page, Some("scaler")).await;
        if answer.starts_with("HTTP/1.1 503") {
            require_empty(&answer, "503");
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(begun.elapsed() < Duration::from_mins(1), "it never ends");
        times += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(begun.elapsed() >= Duration::from_secs(2), "{times} times");
    servers.api.set_down(false);
    let (again, _) = servers.ask(page, Some("scaler")).await;
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
}

/// Idle connections to every server, of as many addresses as a node has pods.
async fn idle(server: SocketAddr, into: &mut Vec<TcpStream>) {
    for number in 0..600_u32 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        let address = [127, 0, 1, u8::try_from(1 + number % 110).unwrap()];
        socket.bind((address, 0).into()).unwrap();
        into.push(socket.connect(server).await.unwrap());
    }
}

#[tokio::test]
async fn idle_connections_keep_neither_probes_nor_scrapes_nor_the_scaler_out() {
    let servers = Servers::start(ReviewLimits::default()).await;
    servers.give("scaler", SCALER).await;
    let mut all = Vec::new();
    for server in [servers.metrics, servers.probes, servers.inventory] {
        idle(server, &mut all).await;
    }
    for _ in 0..5 {
        for (server, page) in [
            (servers.probes, "/healthz"),
            (servers.probes, "/readyz"),
            (servers.metrics, "/metrics"),
        ] {
            let begun = Instant::now();
            let stream = TcpStream::connect(server).await.unwrap();
            let answer = answer(stream, page, "").await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{page}: {answer}");
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(1), "{page} took {took:?}");
        }
        idle(servers.probes, &mut all).await;
    }
    let (found, _) = servers.ask("/inventory", Some("scaler")).await;
    assert!(found.starts_with("HTTP/1.1 200"), "{found}");
}
