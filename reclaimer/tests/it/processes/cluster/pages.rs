//! Fetched pages are those of the broker.

use http::{Method, StatusCode};
use tetris_node::http::{PageSource as _, Pages};
use tetris_node::report::NodeStatus;

use super::broker::Broker;
use crate::http::fixtures::{Daemon, ask, node};

const TAGGED: [&str; 4] = [
    "/status",
    "/status?models=true",
    "/inventory",
    "/inventory/objects",
];

/// The broker's daemon, and the router of its pages as they are fetched.
fn fetched(daemon: &Daemon) -> (Broker, axum::Router) {
    let broker = Broker::serving(daemon.router.clone());
    let all = broker.all();
    (broker, all)
}

#[tokio::test]
async fn a_fetched_page_is_the_brokers_with_its_headers_in_both_encodings() {
    let daemon = Daemon::with(node());
    let (_broker, all) = fetched(&daemon);
    for page in TAGGED {
        for headers in [&[][..], &[("accept-encoding", "br, gzip")]] {
            let from_broker = daemon.ask(Method::GET, page, headers).await;
            let got = ask(&all, Method::GET, page, headers).await;
            assert_eq!(got.status, StatusCode::OK, "{page}");
            assert_eq!(got.body, from_broker.body, "{page}");
            for name in [
                "etag",
                "tetris-observed-ms",
                "content-type",
                "content-encoding",
                "content-length",
                "cache-control",
                "vary",
                "connection",
            ] {
                assert_eq!(got.header(name), from_broker.header(name), "{page} {name}");
            }
            let head = ask(&all, Method::HEAD, page, headers).await;
            assert!(head.body.is_empty());
            assert_eq!(head.header("content-length"), got.header("content-length"));
        }
    }
    let metrics = ask(&all, Method::GET, "/metrics", &[]).await;
    assert!(metrics.text().ends_with("# EOF\n"));
    let kind = metrics.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text"), "{kind}");
    let packed = ask(
        &all,
        Method::GET,
        "/metrics",
        &[("accept-encoding", "gzip")],
    )
    .await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.body[..2], [0x1f, 0x8b]);
}

#[tokio::test]
async fn a_page_that_did_not_change_is_304_whoever_has_it() {
    let daemon = Daemon::with(node());
    let (_broker, all) = fetched(&daemon);
    for page in TAGGED {
        let tag = daemon.get(page).await.header("etag").unwrap().to_owned();
        let tags = format!("\"other\", {tag}");
        let headers = [("if-none-match", tags.as_str())];
        // Before this process has the page, and with it.
        for observed_ms in [5, 6, 7] {
            daemon.observed(NodeStatus {
                observed_ms,
                ..node()
            });
            let got = ask(&all, Method::GET, page, &headers).await;
            assert_eq!(got.status, StatusCode::NOT_MODIFIED, "{page}");
            assert!(got.body.is_empty());
            assert_eq!(got.header("etag"), Some(tag.as_str()));
            let observed = observed_ms.to_string();
            assert_eq!(got.header("tetris-observed-ms"), Some(observed.as_str()));
            if observed_ms == 5 {
                let all_of_it = ask(&all, Method::GET, page, &[]).await;
                assert_eq!(all_of_it.status, StatusCode::OK);
            }
        }
        // The broker sends it no second time, and the client gets all of it.
        let again = ask(&all, Method::GET, page, &[("if-none-match", "\"other\"")]).await;
        assert_eq!(
            (again.status, again.header("tetris-observed-ms")),
            (StatusCode::OK, Some("7"))
        );
        daemon.observed(node());
    }
}

#[tokio::test]
async fn a_page_is_never_older_than_the_request_for_it() {
    let daemon = Daemon::new();
    let (_broker, all) = fetched(&daemon);
    for pods in 0..30 {
        daemon.observed(NodeStatus {
            declaring_pods: pods,
            ..node()
        });
        let status = ask(&all, Method::GET, "/status", &[]).await;
        assert_eq!(status.json()["declaring_pods"], pods);
    }
}

#[tokio::test]
async fn the_brokers_refusals_are_passed_on_and_wrong_requests_do_not_reach_it() {
    let daemon = Daemon::new();
    let (broker, all) = fetched(&daemon);
    let early = ask(&all, Method::GET, "/inventory", &[]).await;
    assert_eq!(early.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(early.text(), "no pass has ended yet\n");
    assert_eq!(broker.asked(), 1);
    for (method, path, status) in [
        (Method::GET, "/status?model=true", StatusCode::BAD_REQUEST),
        (Method::GET, "/nowhere", StatusCode::NOT_FOUND),
        (Method::GET, "/declarations", StatusCode::NOT_FOUND),
        (Method::POST, "/status", StatusCode::METHOD_NOT_ALLOWED),
        (Method::PUT, "/metrics", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let got = ask(&all, method, path, &[]).await;
        assert_eq!(got.status, status, "{path}");
    }
    assert_eq!(broker.asked(), 1);
}

#[tokio::test]
async fn each_server_has_its_own_pages_and_no_others() {
    let daemon = Daemon::with(node());
    let broker = Broker::serving(Pages::new(daemon.shared.clone()).all());
    let pages = broker.pages();
    let routers = [pages.metrics(), pages.probes(), pages.tensors()];
    for (page, expected) in [
        ("/metrics", [200, 404, 404]),
        ("/healthz", [404, 200, 404]),
        ("/healthz/broker", [404, 200, 404]),
        ("/healthz/volumes", [404, 200, 404]),
        ("/healthz/mirror", [404, 200, 404]),
        ("/readyz", [404, 200, 404]),
        ("/status", [404, 404, 200]),
        ("/inventory", [404, 404, 200]),
        ("/inventory/objects", [404, 404, 200]),
    ] {
        for (router, expected) in routers.iter().zip(expected) {
            let got = ask(router, Method::GET, page, &[]).await;
            assert_eq!(got.status, expected, "{page}: {}", got.text());
        }
        let got = ask(&pages.all(), Method::GET, page, &[]).await;
        assert_eq!(got.status, StatusCode::OK, "{page}: {}", got.text());
    }
}
