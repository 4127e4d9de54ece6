//! Probes of every process.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::{Method, StatusCode};
use tetris_node::http::{PageSource as _, Pages};
use tetris_node::process::Process;
use tetris_node::processes::cluster::{FetchedPages, PageLimits, Reports};
use tetris_node::report::process_report::{ProcessReport, SandboxReport, Usage, VolumesReport};

use super::broker::Broker;
use crate::http::fixtures::{Daemon, ask, node};

fn report(process: Process, volumes: Option<VolumesReport>) -> ProcessReport {
    ProcessReport {
        process,
        version: "1".to_owned(),
        started_ms: 1,
        errors: [].into(),
        usage: Usage::default(),
        volumes,
        sandbox: SandboxReport::default(),
    }
}

async fn get(router: &Router, path: &str) -> (StatusCode, String) {
    let got = ask(router, Method::GET, path, &[]).await;
    (got.status, got.text().to_owned())
}

#[tokio::test]
async fn readiness_is_that_of_the_broker_and_of_the_driver_line_by_line() {
    let daemon = Daemon::new();
    let broker = Broker::serving(Pages::new(daemon.shared.clone()).all());
    let reports = Arc::new(Reports::new(true, true));
    let limits = PageLimits::default();
    let pages = FetchedPages::new(&broker.socket, Arc::clone(&reports), limits);
    let (probes, all) = (pages.probes(), pages.all());
    let (status, text) = get(&probes, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "no pass has ended yet",
            "`tetris-node volumes` has not reported yet"
        ]
    );
    let mut broken = node();
    broken.stores[1].error = Some("it has no header".to_owned());
    daemon.observed(broken);
    let waiting = VolumesReport {
        waiting_for: Some("no directory /var/lib/kubelet".to_owned()),
        ..VolumesReport::default()
    };
    reports.take(report(Process::Volumes, Some(waiting)));
    let (_, brief) = get(&probes, "/readyz").await;
    let (_, whole) = get(&all, "/readyz").await;
    assert_eq!(
        (brief.lines().count(), whole.lines().count()),
        (2, 2),
        "{brief}{whole}"
    );
    assert!(
        brief.contains("1 of 2 stores") && !brief.contains("store b"),
        "{brief}"
    );
    assert!(whole.contains("store b: it has no header"), "{whole}");
    assert!(
        brief.contains("has not registered the CSI driver"),
        "{brief}"
    );
    assert!(whole.contains("no directory /var/lib/kubelet"), "{whole}");
    daemon.observed(node());
    let registered = VolumesReport {
        registered: true,
        ..VolumesReport::default()
    };
    reports.take(report(Process::Volumes, Some(registered)));
    for router in [&probes, &all] {
        let (status, text) = get(router, "/readyz").await;
        assert_eq!((status, text.as_str()), (StatusCode::OK, "ok\n"));
    }
}

#[tokio::test]
async fn a_silent_process_that_the_broker_names_is_named_once() {
    let said = "a reason\n`tetris-node volumes` has not reported yet\n";
    let length = said.len();
    let said = format!("HTTP/1.1 503 No\r\ncontent-length: {length}\r\n\r\n{said}");
    let broker = Broker::saying(said);
    let reports = Arc::new(Reports::new(true, true));
    let pages = FetchedPages::new(&broker.socket, Arc::clone(&reports), PageLimits::default());
    let (_, text) = get(&pages.probes(), "/readyz").await;
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        ["a reason", "`tetris-node volumes` has not reported yet"]
    );
    // That of a driver is known here alone.
    reports.take(report(Process::Volumes, Some(VolumesReport::default())));
    let (_, text) = get(&pages.probes(), "/readyz").await;
    assert!(text.contains("has not registered the CSI driver"), "{text}");
}

#[tokio::test]
async fn probes_answer_while_the_broker_hangs_and_name_it() {
    let broker = Broker::hanging_after(b"");
    let pages = broker.pages_with(PageLimits {
        probe: Duration::from_millis(300),
        ..PageLimits::default()
    });
    // Others wait for pages of the same broker.
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let all = pages.all();
            tokio::spawn(async move { ask(&all, Method::GET, "/metrics", &[]).await })
        })
        .collect();
    let probes = pages.probes();
    for path in ["/healthz", "/healthz/volumes", "/healthz/mirror"] {
        assert_eq!(get(&probes, path).await.0, StatusCode::OK, "{path}");
    }
    for path in ["/healthz/broker", "/readyz"] {
        let (status, text) = get(&probes, path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(text.contains("no answer from"), "{path}: {text}");
        assert!(
            text.contains(broker.socket.to_str().unwrap()),
            "{path}: {text}"
        );
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_brokers_probe_is_its_own_answer() {
    let daemon = Daemon::with(node());
    let broker = Broker::serving(Pages::new(daemon.shared.clone()).all());
    let probes = broker.pages().probes();
    assert_eq!(
        get(&probes, "/healthz/broker").await,
        (StatusCode::OK, "ok\n".to_owned())
    );
    let sick = Broker::saying("HTTP/1.1 503 No\r\ncontent-length: 5\r\n\r\nloop!");
    let (status, text) = get(&sick.pages().probes(), "/healthz/broker").await;
    assert_eq!(
        (status, text.as_str()),
        (StatusCode::SERVICE_UNAVAILABLE, "loop!\n")
    );
    let other = Broker::saying("HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n");
    let (status, text) = get(&other.pages().probes(), "/healthz/broker").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("404"), "{text}");
}
