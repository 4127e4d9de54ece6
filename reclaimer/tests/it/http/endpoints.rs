//! Each page, through the router.

use std::time::Duration;

use http::{Method, StatusCode};
use tetris_node::http::{PageSource as _, Pages};
use tetris_service_kit::metrics::CONTENT_TYPE;
use tower::ServiceExt as _;

use crate::http::fixtures::{Daemon, mirror, node, pass};
use tetris_test_support::scrape::Scrape;

const PAGES: [&str; 7] = [
    "/healthz",
    "/readyz",
    "/metrics",
    "/status",
    "/status?models=true",
    "/inventory",
    "/inventory/objects",
];

#[tokio::test(start_paused = true)]
async fn the_daemon_lives_while_its_heart_beats() {
    let daemon = Daemon::new();
    assert_eq!(daemon.get("/healthz").await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(59)).await;
    daemon.shared.health.beat();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(daemon.get("/healthz").await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(1)).await;
    let dead = daemon.get("/healthz").await;
    assert_eq!(dead.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        dead.text(),
        "the daemon's loop last reported 60 s ago; it must within 60 s\n"
    );
    daemon.shared.health.beat();
    assert_eq!(daemon.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn ready_after_the_first_pass_and_only_without_broken_stores() {
    let daemon = Daemon::new();
    let before = daemon.get("/readyz").await;
    assert_eq!(before.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(before.text(), "no pass has ended yet\n");
    daemon.observed(node());
    assert_eq!(daemon.get("/readyz").await.status, StatusCode::OK);
    let mut broken = node();
    broken.stores[1].error = Some("is not mounted".to_owned());
    daemon.observed(broken);
    let after = daemon.get("/readyz").await;
    assert_eq!(after.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(after.text(), "store b: is not mounted\n");
    daemon.observed(node());
    assert_eq!(daemon.get("/readyz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn metrics_are_those_of_now() {
    let daemon = Daemon::with(node());
    daemon.shared.metrics.pass(&pass("a"));
    let answer = daemon.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some(CONTENT_TYPE));
    let scrape = Scrape::parse(answer.text());
    assert_eq!(
        scrape.value("tetris_load_hits_total", &[("store", "a")]),
        Some(5.0)
    );
    assert_eq!(scrape.value("tetris_declaring_pods", &[]), Some(3.0));
    let mut next = node();
    next.declaring_pods = 4;
    daemon.observed(next);
    let scrape = Scrape::parse(daemon.get("/metrics").await.text());
    assert_eq!(scrape.value("tetris_declaring_pods", &[]), Some(4.0));
}

#[tokio::test]
async fn status_lists_models_only_when_asked() {
    let daemon = Daemon::with(node());
    let brief = daemon.get("/status").await.json();
    assert_eq!(brief["node"], "node-1");
    assert_eq!(brief["observed_ms"], 1_700_000_000_500_u64);
    assert_eq!(brief["declarations"]["state"], "current");
    assert_eq!(brief["stores"][0]["states"]["held"]["bytes"], 200);
    assert_eq!(brief["stores"][0]["model_count"], 3);
    assert_eq!(brief["stores"][0].get("models"), None);
    assert_eq!(brief["shortfalls"][0]["goal"], "low-watermark");
    assert_eq!(brief["shortfalls"][0]["reason"], "held");
    let remedy = brief["shortfalls"][0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("enlarge the tmpfs"), "{remedy}");
    let full = daemon.get("/status?models=true").await.json();
    assert_eq!(full["stores"][0]["models"].as_array().unwrap().len(), 3);
    assert_eq!(daemon.get("/status?models=false").await.json(), brief);
}

#[tokio::test]
async fn the_status_has_all_that_the_report_has() {
    let status = node();
    let expected = serde_json::to_value(&status).unwrap();
    let mut status_page = Daemon::with(status).get("/status?models=true").await.json();
    for store in status_page["stores"].as_array_mut().unwrap() {
        store.as_object_mut().unwrap().remove("model_count");
    }
    assert_eq!(status_page, expected);
}

#[tokio::test]
async fn the_inventory_has_its_documented_shape() {
    let mut status = node();
    status.stores.truncate(1);
    status.stores[0].models.truncate(1);
    let body = Daemon::with(status).get("/inventory").await;
    let expected = format!(
        r#"{{"version":1,"node":"node-1","stores":[{{"name":"a","id":"0123","usable":true,"models":[{{"id":"manifest-{:064x}","total_bytes":100,"resident_bytes":100,"held_bytes":60,"last_use_ms":1600000000001,"warm":true}}]}}]}}"#,
        1
    );
    assert_eq!(body.text(), expected);
    assert_eq!(body.header("content-type"), Some("application/json"));
    assert_eq!(body.header("tetris-observed-ms"), Some("1700000000500"));
}

#[tokio::test]
async fn pages_of_passes_wait_for_the_first() {
    let daemon = Daemon::new();
    for page in ["/status", "/inventory", "/inventory/objects"] {
        let answer = daemon.get(page).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.text(), "no pass has ended yet\n");
    }
}

#[tokio::test]
async fn queries_that_are_not_known_are_refused() {
    let daemon = Daemon::with(node());
    for query in ["models=maybe", "model=true"] {
        let answer = daemon.get(&format!("/status?{query}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert!(
            answer.text().contains("expected nothing, `models=true`"),
            "{}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let daemon = Daemon::with(node());
    for page in PAGES {
        // HEAD first: what it leaves in the cache must have its body.
        let head = daemon.ask(Method::HEAD, page, &[]).await;
        let get = daemon.get(page).await;
        assert_eq!(head.status, StatusCode::OK, "{page}");
        assert!(head.body.is_empty(), "{page}");
        assert!(!get.body.is_empty(), "{page}");
        for name in ["content-type", "etag", "vary"] {
            assert_eq!(head.header(name), get.header(name), "{page} {name}");
        }
        if page != "/metrics" {
            assert_eq!(
                head.header("content-length"),
                Some(get.body.len().to_string().as_str()),
                "{page}"
            );
        }
    }
}

#[tokio::test]
async fn only_what_there_is_can_be_read_and_nothing_written() {
    let daemon = Daemon::with(node());
    for path in [
        "/",
        "/debug/pprof",
        "/status/",
        "/metrics/x",
        "/inventory%2f",
    ] {
        let answer = daemon.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        assert!(answer.text().contains("there are /healthz"), "{path}");
    }
    for page in PAGES {
        for method in [
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
        ] {
            let answer = daemon.ask(method.clone(), page, &[]).await;
            assert_eq!(
                answer.status,
                StatusCode::METHOD_NOT_ALLOWED,
                "{method} {page}"
            );
            assert_eq!(answer.header("allow"), Some("GET,HEAD"));
            assert_eq!(answer.text(), "pages are read-only; use GET or HEAD\n");
        }
    }
}

/// An answer of a router of some pages.
async fn page_of(router: axum::Router, path: &str) -> (StatusCode, String) {
    let request = http::Request::builder().uri(path);
    let request = request.body(axum::body::Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    (parts.status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn pages_for_everybody_name_no_tensor_no_model_and_no_path() {
    let mut status = node();
    status.stores[1].error = Some("cannot open /stores/b".to_owned());
    let ids: Vec<String> = status.stores[0]
        .objects
        .iter()
        .map(|object| object.id.to_string())
        .collect();
    let daemon = Daemon::with(status).with_mirror(mirror());
    let pages = Pages::new(daemon.shared.clone());
    let (code, metrics) = page_of(pages.metrics(), "/metrics").await;
    assert_eq!(code, StatusCode::OK);
    let (code, readyz) = page_of(pages.probes(), "/readyz").await;
    assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(
        readyz,
        "1 of 2 stores cannot be used; the log says which, and why\n"
    );
    assert!(metrics.contains("store=\"a\""), "stores are labels");
    for secret in ids
        .iter()
        .map(String::as_str)
        .chain(["manifest-", "/stores/", "core"])
    {
        assert!(
            !metrics.contains(secret) && !readyz.contains(secret),
            "{secret}"
        );
    }
    for path in PAGES {
        let (of_metrics, _) = page_of(pages.metrics(), path).await;
        let (of_probes, _) = page_of(pages.probes(), path).await;
        let is_probe = ["/healthz", "/readyz"].contains(&path);
        assert_eq!(
            of_metrics == StatusCode::NOT_FOUND,
            path != "/metrics",
            "{path}"
        );
        assert_eq!(of_probes == StatusCode::NOT_FOUND, !is_probe, "{path}");
    }
}

#[tokio::test]
async fn every_answer_ends_its_connection() {
    let daemon = Daemon::with(node());
    for path in PAGES.into_iter().chain(["/nowhere"]) {
        assert_eq!(
            daemon.get(path).await.header("connection"),
            Some("close"),
            "{path}"
        );
    }
}
