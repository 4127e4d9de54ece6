//! Tests of loads from a real Prometheus server, which scrapes the test's exporter.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tetris_scaler::load::{LoadError, Prometheus, PrometheusOptions};
use tetris_scaler_core::Rate;
use tokio::time::{Instant, sleep};

/// Timeout for the server to start and to scrape.
const DEADLINE: Duration = Duration::from_mins(1);

fn prometheus(url: String, token: Option<std::path::PathBuf>) -> Prometheus {
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = PrometheusOptions {
        url,
        token,
        ca: None,
        timeout: Duration::from_secs(5),
    };
    Prometheus::try_new(options).unwrap()
}

async fn exporter(counter: Arc<AtomicU64>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let metrics = async move || {
        let requests = counter.fetch_add(1, Ordering::Relaxed);
        format!(
            "# TYPE busy gauge\nbusy{{pod=\"a\"}} 2.5\nbusy{{pod=\"b\"}} 4\nnothing NaN\n# TYPE scrapes counter\nscrapes {requests}\n"
        )
    };
    let router = Router::new().route("/metrics", get(metrics));
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

fn start(dir: &Path, exporter: u16) -> (tokio::process::Child, String) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: test\n  static_configs:\n  - targets: ['127.0.0.1:{exporter}']\n"
    );
    let file = dir.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let child = tokio::process::Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            dir.join("data").display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (child, format!("http://{address}"))
}

#[tokio::test]
async fn a_real_server_tells_loads() {
    let there = std::process::Command::new("prometheus")
        .arg("--version")
        .output();
    if there.is_err() {
        println!("skipped: there is no command `prometheus`; install the distribution's package");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let port = exporter(Arc::default()).await;
    let (mut child, url) = start(dir.path(), port);
    let server = prometheus(url, None);
    let began = Instant::now();
    let load = loop {
        match server.load("busy").await {
            Ok(load) => break load,
            Err(error) => assert!(began.elapsed() < DEADLINE, "{error}"),
        }
        sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(load, Rate::from_milli_rps(6_500));
    assert_eq!(server.load("sum(busy)").await, Ok(load));
    assert_eq!(server.load("scalar(sum(busy))").await, Ok(load));
    let pods = server.loads_by_pod("busy").await.unwrap();
    assert_eq!(pods["a"], Rate::from_milli_rps(2_500));
    assert_eq!(pods["b"], Rate::from_rps(4));
    while server.load("rate(scrapes[30s])").await.is_err() {
        assert!(began.elapsed() < DEADLINE);
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(server.load("absent_metric").await, Err(LoadError::Empty));
    assert_eq!(
        server.load("absent_metric or vector(0)").await,
        Ok(Rate::ZERO)
    );
    assert!(matches!(
        server.load("nothing").await,
        Err(LoadError::NotALoad { .. })
    ));
    assert!(matches!(
        server.load("busy[1m]").await,
        Err(LoadError::Kind { .. })
    ));
    match server.load("sum(").await {
        Err(LoadError::Refused {
            status: 400,
            problem,
        }) => assert!(problem.contains("parse"), "{problem}"),
        other => panic!("{other:?}"),
    }
    child.kill().await.unwrap();
    assert!(matches!(
        server.load("busy").await,
        Err(LoadError::Unreachable { .. })
    ));
}

#[tokio::test]
async fn the_token_is_read_for_each_query() {
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
    let answer = async move |headers: http::HeaderMap| {
        let bearer = headers["authorization"].to_str().unwrap().to_owned();
        sender.send(bearer).unwrap();
        r#"{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}"#
    };
    let router = Router::new().route("/prefix/api/v1/query", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    let server = prometheus(url, Some(token.clone()));
    for secret in ["first", "second"] {
        std::fs::write(&token, format!("{secret}\n")).unwrap();
        assert_eq!(server.load("x").await, Ok(Rate::from_rps(3)));
        assert_eq!(seen.recv().await.unwrap(), format!("Bearer {secret}"));
    }
    std::fs::remove_file(&token).unwrap();
    let error = server.load("x").await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
}

#[test]
fn addresses_and_files_that_are_none_are_named() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let options = |url: &str| PrometheusOptions {
        url: url.to_owned(),
        token: None,
        ca: None,
        timeout: Duration::from_secs(1),
    };
    for url in ["", "prometheus:9090", "ftp://x"] {
        let error = Prometheus::try_new(options(url)).unwrap_err();
        assert!(error.to_string().contains("--prometheus-url"), "{error}");
    }
    let with_ca = PrometheusOptions {
        ca: Some("/nowhere/ca.pem".into()),
        ..options("https://x")
    };
    let error = Prometheus::try_new(with_ca).unwrap_err();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}
