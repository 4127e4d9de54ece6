//! Tags, 304 and gzip.

use http::{Method, StatusCode};
use tetris_node::report::NodeStatus;

use crate::http::fixtures::{Answer, Daemon, node};

const TAGGED: [&str; 4] = [
    "/status",
    "/status?models=true",
    "/inventory",
    "/inventory/objects",
];

async fn if_none_match(daemon: &Daemon, page: &str, tags: &str) -> Answer {
    daemon
        .ask(Method::GET, page, &[("if-none-match", tags)])
        .await
}

fn tag(answer: &Answer) -> String {
    answer.header("etag").unwrap().to_owned()
}

#[tokio::test]
async fn a_pass_that_changed_nothing_is_304() {
    let daemon = Daemon::with(node());
    for page in TAGGED {
        let tag = tag(&daemon.get(page).await);
        assert!(tag.starts_with("W/\"") && tag.ends_with('"'), "{tag}");
        for observed_ms in [1_700_000_000_500, 1_700_000_060_000] {
            daemon.observed(NodeStatus {
                observed_ms,
                ..node()
            });
            let answer = if_none_match(&daemon, page, &tag).await;
            assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{page}");
            assert!(answer.body.is_empty());
            assert_eq!(answer.header("etag"), Some(tag.as_str()));
            assert_eq!(answer.header("vary"), Some("accept-encoding"));
            assert_eq!(answer.header("cache-control"), Some("no-cache"));
            let observed = observed_ms.to_string();
            assert_eq!(
                answer.header("tetris-observed-ms"),
                Some(observed.as_str()),
                "{page}"
            );
        }
        daemon.observed(node());
    }
}

#[tokio::test]
async fn what_changed_is_answered_in_full() {
    let daemon = Daemon::with(node());
    let mut loaded = node();
    loaded.stores[0].models[1].last_use_ms += 1;
    for (page, changes) in [
        ("/inventory", true),
        ("/status?models=true", true),
        ("/status", false),
    ] {
        daemon.observed(node());
        let tag = tag(&daemon.get(page).await);
        daemon.observed(loaded.clone());
        let answer = if_none_match(&daemon, page, &tag).await;
        assert_eq!(answer.status == StatusCode::OK, changes, "{page}");
    }
}

#[tokio::test]
async fn the_status_that_was_asked_for_is_never_an_older_one() {
    let daemon = Daemon::new();
    for pods in 0..50 {
        daemon.observed(NodeStatus {
            declaring_pods: pods,
            ..node()
        });
        assert_eq!(daemon.get("/status").await.json()["declaring_pods"], pods);
    }
}

#[tokio::test]
async fn tags_are_compared_weakly_and_in_lists() {
    let daemon = Daemon::with(node());
    let tag = tag(&daemon.get("/inventory").await);
    let strong = tag.strip_prefix("W/").unwrap();
    for (asked, status) in [
        (strong.to_owned(), StatusCode::NOT_MODIFIED),
        (format!("\"x\", {tag}"), StatusCode::NOT_MODIFIED),
        ("*".to_owned(), StatusCode::NOT_MODIFIED),
        ("\"x\"".to_owned(), StatusCode::OK),
        (String::new(), StatusCode::OK),
        (strong.trim_matches('"').to_owned(), StatusCode::OK),
    ] {
        assert_eq!(
            if_none_match(&daemon, "/inventory", &asked).await.status,
            status,
            "{asked}"
        );
    }
}

#[tokio::test]
async fn gzip_is_for_those_who_accept_it() {
    let daemon = Daemon::with(node());
    for page in TAGGED.into_iter().chain(["/metrics"]) {
        let plain = daemon.get(page).await;
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("accept-encoding"), "{page}");
        for accepted in ["gzip", "deflate, gzip;q=0.5, br", "GZIP"] {
            let packed = daemon
                .ask(Method::GET, page, &[("accept-encoding", accepted)])
                .await;
            assert_eq!(
                packed.header("content-encoding"),
                Some("gzip"),
                "{page} {accepted}"
            );
            assert_eq!(packed.header("vary"), Some("accept-encoding"));
            assert_eq!(packed.header("etag"), plain.header("etag"));
            assert_eq!(packed.body[..2], [0x1f, 0x8b]);
            assert!(packed.body.len() < plain.body.len(), "{page}");
            if page != "/metrics" {
                assert_eq!(gunzip(&packed.body), plain.body, "{page}");
            }
        }
        for refused in ["identity", "gzip;q=0", "gzip; q=0.0", "br", "gzipped"] {
            let answer = daemon
                .ask(Method::GET, page, &[("accept-encoding", refused)])
                .await;
            assert_eq!(answer.status, StatusCode::OK, "{page} {refused}");
            assert_eq!(answer.header("content-encoding"), None, "{page} {refused}");
        }
    }
}

#[tokio::test]
async fn one_tag_serves_both_encodings() {
    let daemon = Daemon::with(node());
    let tag = tag(&daemon.get("/inventory").await);
    let headers = [("accept-encoding", "gzip"), ("if-none-match", tag.as_str())];
    for method in [Method::GET, Method::HEAD] {
        let answer = daemon.ask(method, "/inventory", &headers).await;
        assert_eq!(answer.status, StatusCode::NOT_MODIFIED);
    }
}

/// By the system's own gzip, which is not the library that packed it.
fn gunzip(packed: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut child = std::process::Command::new("gzip")
        .arg("-dc")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(packed).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}
