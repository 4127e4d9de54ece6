//! Many models, many pollers.

use http::{Method, StatusCode};

use crate::http::fixtures::{Daemon, model, node, object_ids};
use tetris_test_support::alone::alone;

const MODELS: u64 = 20_000;
/// Longest entry of a model: its id, three lengths of up to 20 digits, a moment, and their names.
const BYTES_PER_MODEL: u64 = 256;

fn large() -> Daemon {
    let mut status = node();
    status.stores[0].models = (0..MODELS)
        .map(|n| model(n, 1 << 40, 1 << 39, 1 << 30))
        .collect();
    status.stores[0].objects = object_ids(MODELS);
    Daemon::with(status)
}

#[tokio::test]
async fn a_page_of_many_models_is_made_once_and_not_copied() {
    let daemon = large();
    for (page, headers) in [
        ("/inventory", &[][..]),
        ("/inventory", &[("accept-encoding", "gzip")]),
        ("/status?models=true", &[]),
        ("/inventory/objects", &[]),
        ("/inventory/objects", &[("accept-encoding", "gzip")]),
    ] {
        let first = daemon.ask(Method::GET, page, headers).await;
        assert!(first.body.len() as u64 > MODELS, "{page}");
        assert!(
            (first.body.len() as u64) < MODELS * BYTES_PER_MODEL,
            "{page}"
        );
        for _ in 0..100 {
            let again = daemon.ask(Method::GET, page, headers).await;
            assert_eq!(again.body.as_ptr(), first.body.as_ptr(), "{page}");
        }
    }
    let listed = daemon.get("/inventory").await.json();
    assert_eq!(
        listed["stores"][0]["models"].as_array().unwrap().len() as u64,
        MODELS
    );
}

#[tokio::test]
async fn many_pollers_take_no_memory() {
    if !alone() {
        return;
    }
    let daemon = large();
    let tag = daemon
        .get("/inventory")
        .await
        .header("etag")
        .unwrap()
        .to_owned();
    let before = resident_bytes();
    for _ in 0..10_000 {
        let answer = daemon
            .ask(Method::GET, "/inventory", &[("if-none-match", &tag)])
            .await;
        assert_eq!(answer.status, StatusCode::NOT_MODIFIED);
    }
    // Copies would be 30 GB. Other tests run in this process, so some growth is theirs.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pollers_that_come_at_once_share_one_page() {
    let daemon = std::sync::Arc::new(large());
    let asked: Vec<_> = (0..64)
        .map(|_| {
            let daemon = std::sync::Arc::clone(&daemon);
            tokio::spawn(async move { daemon.get("/inventory").await.body })
        })
        .collect();
    let mut bodies = Vec::new();
    for body in asked {
        bodies.push(body.await.unwrap());
    }
    assert!(
        bodies
            .iter()
            .all(|body| body.as_ptr() == bodies[0].as_ptr())
    );
}

#[tokio::test]
async fn many_models_make_no_more_series() {
    let few = Daemon::with(node())
        .get("/metrics")
        .await
        .text()
        .lines()
        .count();
    let many = large().get("/metrics").await.text().lines().count();
    assert_eq!(few, many);
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kibibytes * 1024
}
