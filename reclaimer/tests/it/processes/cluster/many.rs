//! Many clients and slow ones: the broker's work and the memory here are bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::ETAG;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{Method, Request, StatusCode};
use tetris_node::http::{PageSource as _, Pages, serve};
use tetris_node::processes::cluster::PageLimits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

use super::broker::Broker;
use crate::http::fixtures::{Daemon, ask, model, node};

const MIB: usize = 1 << 20;

/// A page of a MiB for each path, of which none is like the one before.
fn ever_new() -> Router {
    let number = Arc::new(AtomicU64::new(0));
    let page = move || {
        let number = number.fetch_add(1, Ordering::SeqCst);
        async move { ([(ETAG, format!("\"{number}\""))], vec![b'a'; MIB]).into_response() }
    };
    Router::new()
        .route("/inventory", get(page.clone()))
        .route("/inventory/objects", get(page.clone()))
        .route("/metrics", get(page))
}

/// A client that has the head of its answer and reads no body.
async fn unread(all: &Router, path: &str) -> Response {
    let request = Request::get(path).body(Body::empty()).unwrap();
    all.clone().oneshot(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_at_once_share_one_page_and_at_most_two_requests() {
    let mut status = node();
    status.stores[0].models = (0..50_000).map(|n| model(n, 1, 1, 0)).collect();
    let daemon = Daemon::with(status);
    let broker = Broker::serving(Pages::new(daemon.shared.clone()).all());
    let all = broker.all();
    for path in ["/inventory", "/metrics"] {
        let before = broker.asked();
        let asked: Vec<_> = (0..256)
            .map(|_| {
                let all = all.clone();
                tokio::spawn(async move { ask(&all, Method::GET, path, &[]).await.body })
            })
            .collect();
        let mut bodies = Vec::new();
        for body in asked {
            bodies.push(body.await.unwrap());
        }
        assert!(bodies.iter().all(|body| body.len() == bodies[0].len()));
        // Some of the tasks may have started late.
        let asked = broker.asked() - before;
        assert!(asked <= 256 / 4, "{asked} requests");
    }
    // Of a page that stays, the broker sent one copy, and all clients have the same bytes.
    let first = ask(&all, Method::GET, "/inventory", &[]).await.body;
    let other = ask(&all, Method::GET, "/inventory", &[]).await.body;
    assert_eq!(first.as_ptr(), other.as_ptr());
}

#[tokio::test]
async fn pages_that_slow_clients_read_have_a_limit_and_others_are_told() {
    let broker = Broker::serving(ever_new());
    let limits = PageLimits {
        page: Duration::from_mins(5),
        page_bytes: 2 * MIB,
        pages_bytes: 4 * MIB + 1000,
        ..PageLimits::default()
    };
    let all = broker.pages_with(limits).all();
    let mut slow = Vec::new();
    for _ in 0..4 {
        let got = unread(&all, "/inventory").await;
        assert_eq!(got.status(), StatusCode::OK);
        slow.push(got);
    }
    let refused = ask(&all, Method::GET, "/inventory", &[]).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        refused.text().contains("slow clients"),
        "{}",
        refused.text()
    );
    // Metrics have a separate budget.
    let metrics = ask(&all, Method::GET, "/metrics", &[]).await;
    assert_eq!(metrics.status, StatusCode::OK);
    slow.pop();
    let got = ask(&all, Method::GET, "/inventory", &[]).await;
    assert_eq!((got.status, got.body.len()), (StatusCode::OK, MIB));
}

#[tokio::test]
async fn kept_pages_that_nobody_reads_make_room_for_others() {
    let broker = Broker::serving(ever_new());
    let limits = PageLimits {
        page: Duration::from_mins(5),
        page_bytes: 2 * MIB,
        pages_bytes: MIB + 1000,
        ..PageLimits::default()
    };
    let all = broker.pages_with(limits).all();
    for _ in 0..3 {
        for path in ["/inventory", "/inventory/objects"] {
            let got = ask(&all, Method::GET, path, &[]).await;
            assert_eq!(
                (got.status, got.body.len()),
                (StatusCode::OK, MIB),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn pages_of_metrics_are_shared_for_a_moment() {
    let broker = Broker::serving(ever_new());
    let limits = PageLimits {
        metrics_fresh: Duration::from_hours(1),
        ..PageLimits::default()
    };
    let all = broker.pages_with(limits).all();
    for _ in 0..100 {
        assert_eq!(unread(&all, "/metrics").await.status(), StatusCode::OK);
    }
    assert_eq!(broker.asked(), 1);
}

/// The page takes longer than a request may take to arrive.
#[tokio::test]
async fn a_page_that_takes_a_while_is_waited_for_and_an_idle_connection_is_not() {
    let slow = async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        "a page"
    };
    let broker = Broker::serving(Router::new().route("/inventory", get(slow)));
    let pages = broker.pages_with(PageLimits::default());
    let mut limits = pages.limits();
    limits.request = Duration::from_secs(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let never = std::future::pending();
    tokio::spawn(serve(
        listener,
        limits.transport(),
        pages.all(),
        limits,
        never,
    ));
    let mut idle = TcpStream::connect(address).await.unwrap();
    let mut asking = TcpStream::connect(address).await.unwrap();
    let request = b"GET /inventory HTTP/1.1\r\nhost: node\r\n\r\n";
    asking.write_all(request).await.unwrap();
    let (mut nothing, mut answer) = (Vec::new(), String::new());
    let begun = std::time::Instant::now();
    idle.read_to_end(&mut nothing).await.unwrap();
    // Long before an answer would be late.
    assert!(begun.elapsed() < limits.wait, "{:?}", begun.elapsed());
    asking.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.ends_with("a page"), "{answer}");
}
