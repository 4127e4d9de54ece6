//! The webhook's program in a cgroup with the limit that it ships with, under hostile clients at both of its ports, with
//! TLS and without.
//!
//! `TETRIS_SIEGE_SECONDS` sets the duration.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use http::StatusCode;
use tetris_hostile::cgroup::Cgroup;
use tetris_hostile::clients::{Paths, connect};
use tetris_hostile::memory::private_bytes;
use tetris_hostile::siege;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::served::api::Api;
use crate::served::client::{self, plain, with_tls};
use crate::served::command::{address, kubeconfig, served};
use crate::served::https::review;
use crate::served::replica::trusted;

/// Limit of the shipped Deployment (`deploy/base/webhook/deployment.yaml`).
const LIMIT: u64 = 256 << 20;
/// Reviews before the attack: all parts of the webhook have been used.
const WARM: usize = 100;
/// Memory that the webhook may keep besides a fifth of that before: caches and arenas of the C library.
const KEPT: u64 = 32 << 20;
/// Number of looks whether memory is back, a second apart.
const LOOKS: u64 = 90;

const REVIEWS: Paths = Paths {
    victim: "/mutate/namespace",
    flood: "/mutate",
    waiting: "/mutate",
};
const PAGES: Paths = Paths {
    victim: "/healthz",
    flood: "/metrics",
    waiting: "/metrics",
};

/// Number of clients whose reviews take much memory.
const LARGE: usize = 16;
/// Length of their reviews, near the most that is taken.
const LARGE_BYTES: usize = (4 << 20) - 1024;

/// Authorities that hostile clients trust, in PEM.
static TRUSTED: OnceLock<String> = OnceLock::new();

/// A webhook, killed when dropped.
struct Webhook {
    child: Child,
    reviews: SocketAddr,
    pages: SocketAddr,
}

impl Webhook {
    async fn start(cgroup: &Cgroup, api: &Api, folder: &std::path::Path) -> Self {
        let config = kubeconfig(folder, served(api).await);
        let mut child = cgroup
            .start(env!("CARGO_BIN_EXE_tetris-webhook"), |command| {
                let args =
                    "run --log-format json --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0";
                command
                    .args(args.split_whitespace())
                    .env("KUBECONFIG", config)
                    .env("POD_NAMESPACE", "tetris-system")
                    .stderr(Stdio::piped());
            })
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        // No one waits for a full pipe.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        let webhook = Self {
            child,
            reviews: address(&line, "reviews"),
            pages: address(&line, "pages"),
        };
        while plain(webhook.pages).await.get("/readyz").await.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        webhook
    }

    fn private_bytes(&self) -> u64 {
        private_bytes(self.child.id())
    }

    fn require_running(&mut self) {
        let ended = self.child.try_wait().unwrap();
        assert_eq!(ended, None, "the webhook has ended");
    }

    /// Has a pod reviewed on its own connection, as the API server does. Returns the time that it took.
    async fn ask(&self, api: &Api) -> Duration {
        let asked = Instant::now();
        let mut client = client::connect(api, self.reviews).await.unwrap();
        let (status, answer) = client.post("/mutate/namespace", review()).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        asked.elapsed()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn connect_with_tls(
    from: Ipv4Addr,
    server: SocketAddr,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = connect(from, server).await?;
    with_tls(trusted_by_hostile(), stream).await
}

/// A review whose object has as many values as fit.
fn large() -> String {
    let mut review: serde_json::Value = serde_json::from_str(&review()).unwrap();
    review["request"]["object"]["spec"]["numbers"] = serde_json::Value::Null;
    let numbers = format!("[{}0]", "0,".repeat(LARGE_BYTES / 2));
    review
        .to_string()
        .replace("\"numbers\":null", &format!("\"numbers\":{numbers}"))
}

/// Asks for large reviews, for ever.
async fn ask_for_large_reviews(server: SocketAddr) {
    let large = large();
    loop {
        if let Ok(mut client) = client::connect_trusting(trusted_by_hostile(), server).await {
            let (status, _) = client.post("/mutate/namespace", large.clone()).await;
            assert!(status == StatusCode::OK || status == StatusCode::REQUEST_TIMEOUT);
        }
    }
}

fn trusted_by_hostile() -> &'static str {
    TRUSTED.get().map_or("", String::as_str)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_siege_the_webhook_reviews_within_its_memory_and_gives_it_back() {
    let cgroup = match Cgroup::new("webhook", LIMIT) {
        Ok(cgroup) => cgroup,
        Err(reason) => {
            said(&format!("SKIPPED: limit of the webhook: {reason}"));
            return;
        }
    };
    // On their own threads: the API server waits for no hostile client.
    let hostile = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (api, folder) = (Api::new(), tempfile::tempdir().unwrap());
    let mut webhook = Webhook::start(&cgroup, &api, folder.path()).await;
    let mut unbothered = Duration::ZERO;
    for _ in 0..WARM {
        unbothered = unbothered.max(webhook.ask(&api).await);
    }
    let before = webhook.private_bytes();

    let bundle = api.with(|state| trusted(state)[0].clone().unwrap());
    TRUSTED.set(bundle).unwrap();
    hostile.spawn(siege::run(webhook.reviews, REVIEWS, connect_with_tls));
    hostile.spawn(siege::run(webhook.reviews, REVIEWS, connect));
    hostile.spawn(siege::run(webhook.pages, PAGES, connect));
    for _ in 0..LARGE {
        hostile.spawn(ask_for_large_reviews(webhook.reviews));
    }
    let began = Instant::now();
    let (mut most, mut slowest, mut asked) = (before, Duration::ZERO, 0);
    while began.elapsed() < siege::duration() {
        webhook.require_running();
        slowest = slowest.max(webhook.ask(&api).await);
        most = most.max(webhook.private_bytes());
        asked += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hostile.shutdown_background();

    let allowed = before + before / 5 + KEPT;
    let mut after = webhook.private_bytes();
    for _ in 0..LOOKS {
        if after <= allowed {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        after = webhook.private_bytes();
    }
    said(&format!(
        "private bytes: {before} before, {most} at most, {after} after; {asked} reviews, the slowest {slowest:?}, {unbothered:?} before"
    ));
    webhook.require_running();
    assert!(after <= allowed, "{after} bytes, {before} before");
}

fn said(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
