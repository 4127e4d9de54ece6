//! Brokers that are away, hang, or are in a pod's hands.

use std::time::Duration;

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_ENCODING, ETAG, LOCATION, SET_COOKIE};
use axum::response::IntoResponse as _;
use axum::routing::get;
use http::{Method, StatusCode};
use tetris_node::http::{PageSource as _, Pages};
use tetris_node::processes::cluster::PageLimits;

use super::broker::Broker;
use crate::http::fixtures::{Answer, Daemon, ask, node};

const PAGES: [&str; 5] = [
    "/metrics",
    "/status",
    "/status?models=true",
    "/inventory",
    "/inventory/objects",
];

fn quick() -> PageLimits {
    PageLimits {
        page: Duration::from_millis(300),
        metrics: Duration::from_millis(300),
        probe: Duration::from_millis(300),
        ..PageLimits::default()
    }
}

/// Asserts that all pages are 503 for this reason, which names the socket and the next step.
async fn require_unavailable(broker: &Broker, limits: PageLimits, reason: &str) {
    let all = broker.pages_with(limits).all();
    let socket = broker.socket.to_str().unwrap();
    for page in PAGES {
        let got = ask(&all, Method::GET, page, &[]).await;
        assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
        let text = got.text();
        for part in [socket, reason, "`tetris-node broker`"] {
            assert!(text.contains(part), "{page}, {part}: {text}");
        }
    }
    let healthz = ask(&all, Method::GET, "/healthz", &[]).await;
    assert_eq!(healthz.status, StatusCode::OK);
}

#[tokio::test]
async fn a_broker_that_is_away_is_503_with_the_reason_until_it_is_back() {
    let broker = Broker::away();
    require_unavailable(&broker, quick(), "cannot connect to").await;
    let daemon = Daemon::with(node());
    let pages = broker.pages();
    let router = pages.all();
    let serving = broker.serve(Pages::new(daemon.shared.clone()).all());
    for page in PAGES {
        let got = ask(&router, Method::GET, page, &[]).await;
        assert_eq!(got.status, StatusCode::OK, "{page}: {}", got.text());
    }
    // It dies, and its socket stays.
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    require_unavailable(&broker, quick(), "cannot connect to").await;
    let kept = ask(&router, Method::GET, "/status", &[]).await;
    assert_eq!(
        kept.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "no old page passes for a new one"
    );
}

#[tokio::test]
async fn a_broker_that_hangs_is_503_within_the_limit_of_time() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart";
    for said in [&b""[..], b"HTTP/1.1 200", head] {
        let broker = Broker::hanging_after(said);
        require_unavailable(&broker, quick(), "no answer from").await;
        let all = broker.pages_with(quick()).all();
        let probe = ask(&all, Method::GET, "/healthz/broker", &[]).await;
        assert_eq!(probe.status, StatusCode::SERVICE_UNAVAILABLE);
    }
}

#[tokio::test]
async fn an_exchange_that_breaks_off_or_is_no_http_is_503() {
    let long = PageLimits {
        page: Duration::from_mins(5),
        ..PageLimits::default()
    };
    let blank = "\n".repeat(100_000);
    for said in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffffff\r\nhello",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        &[0xff; 10_000],
        blank.as_bytes(),
    ] {
        let broker = Broker::saying(said);
        require_unavailable(&broker, long, "the exchange with").await;
    }
}

#[tokio::test]
async fn answers_that_no_broker_gives_are_503() {
    for (said, reason) in [
        (
            "HTTP/1.1 302 Found\r\nlocation: http://elsewhere\r\n",
            "status 302",
        ),
        ("HTTP/1.1 201 Created\r\n", "status 201"),
        ("HTTP/1.1 304 Not Modified\r\n", "status 304"),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n", "encoding"),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n", "encoding"),
    ] {
        let broker = Broker::saying(format!("{said}content-length: 0\r\n\r\n"));
        require_unavailable(&broker, quick(), reason).await;
    }
}

#[tokio::test]
async fn a_page_over_its_limit_is_503_and_is_not_read_to_its_end() {
    let limits = PageLimits {
        page: Duration::from_mins(5),
        page_bytes: 1000,
        metrics_bytes: 1000,
        ..PageLimits::default()
    };
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffff\r\n";
    let mut chunked = endless.to_vec();
    chunked.resize(100_000, b'a');
    for said in [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999\r\n\r\n".to_vec(),
        chunked,
        // Reasons have a limit as well.
        [
            b"HTTP/1.1 503 No\r\ncontent-length: 70000\r\n\r\n".to_vec(),
            vec![b'a'; 70_000],
        ]
        .concat(),
    ] {
        let broker = Broker::saying(said);
        let all = broker.pages_with(limits).all();
        for page in PAGES {
            let got = ask(&all, Method::GET, page, &[]).await;
            assert_eq!(got.status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
            assert!(got.text().contains("bytes"), "{}", got.text());
        }
    }
}

#[tokio::test]
async fn of_the_brokers_headers_those_of_pages_are_passed_on() {
    let page = async || {
        let headers = [
            (SET_COOKIE, HeaderValue::from_static("a=b")),
            (LOCATION, HeaderValue::from_static("http://elsewhere")),
            (ETAG, HeaderValue::from_static("\"x\"")),
        ];
        (headers, "{}").into_response()
    };
    let router = axum::Router::new()
        .route("/inventory", get(page))
        .route("/status", get(async || ([(CONTENT_ENCODING, "gzip")], "x")));
    let broker = Broker::serving(router);
    let all = broker.all();
    let got: Answer = ask(&all, Method::GET, "/inventory", &[]).await;
    assert_eq!((got.status, got.text()), (StatusCode::OK, "{}"));
    assert_eq!(got.header("etag"), Some("\"x\""));
    assert_eq!(
        (got.header("set-cookie"), got.header("location")),
        (None, None)
    );
    let packed = ask(&all, Method::GET, "/status", &[("accept-encoding", "gzip")]).await;
    assert_eq!(packed.status, StatusCode::OK);
}
