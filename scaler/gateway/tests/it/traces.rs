//! Spans of requests, as a collector gets them.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tetris_test_support::collector::{CollectedSpan, Collector};

use crate::client::{send, whole};
use crate::engines::engine::{ASLEEP, Engine};
use crate::engines::{completion, group};
use crate::gateway::function;
use crate::instance::{Instance, Mode};
use crate::replica::{Replica, free_address};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0ba902b7";

/// A gateway's process with a collector.
struct Traced {
    replica: Replica,
    _folder: tempfile::TempDir,
}

impl Traced {
    async fn start(config: &str, endpoint: &str) -> Self {
        Self::start_with(config, endpoint, &[]).await
    }

    async fn start_with(config: &str, endpoint: &str, variables: &[(&str, &OsStr)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, config).unwrap();
        let replica = Replica::start_traced(&path, endpoint, variables);
        replica.ready().await;
        Self {
            replica,
            _folder: folder,
        }
    }

    async fn ask(&self, parent: Option<&str>) -> String {
        let request = Request::post("/functions/embed/v2/models/m/infer").header("host", "x");
        let request = match parent {
            Some(parent) => request.header("traceparent", parent),
            None => request,
        };
        let request = request.body(Full::new(Bytes::from_static(b"{}"))).unwrap();
        let response = send(self.replica.address, request).await.unwrap();
        whole(response).await.body
    }
}

/// Waits for a span, and lets the instance serve meanwhile.
fn wait(collector: &Collector, is_wanted: impl Fn(&CollectedSpan) -> bool) -> CollectedSpan {
    tokio::task::block_in_place(|| collector.wait(is_wanted))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_has_the_client_the_gateway_and_the_instance() {
    let collector = Collector::start();
    let instance = Instance::start("embed", Mode::Answer);
    let config = function("embed", "", &[instance.address], 1);
    let gateway = Traced::start(&config, &collector.endpoint()).await;
    let parent = format!("00-{TRACE}-{CLIENT}-01");
    gateway.ask(Some(&parent)).await;
    let span = wait(&collector, |span| span.trace == TRACE);
    assert_eq!(
        (span.service.as_str(), span.name.as_str()),
        ("tetris-gateway", "request")
    );
    assert_eq!(span.parent, CLIENT);
    for (name, expected) in [
        ("function", "embed"),
        ("outcome", "served"),
        ("http.request.method", "POST"),
        ("http.response.status_code", "200"),
    ] {
        assert_eq!(span.attribute(name), Some(expected), "{span:#?}");
    }
    let instance_name = span.attribute("instance").unwrap();
    // The decision, with the instances that it was made among.
    let chosen = span.event_attribute("dispatched", "instance");
    assert_eq!(chosen, Some(instance_name), "{span:#?}");
    let candidates = span.event_attribute("dispatched", "candidates").unwrap();
    assert_eq!(candidates, format!("{instance_name} 0/1"));
    // The instance's spans are below that of the gateway.
    let seen = instance.seen();
    let passed_on = seen.last().unwrap().headers["traceparent"]
        .to_str()
        .unwrap();
    assert_eq!(passed_on, format!("00-{TRACE}-{}-01", span.id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_is_an_order_and_its_request_shows_the_sleeping_engine() {
    let collector = Collector::start();
    let engine = Engine::start("b", ASLEEP);
    let config = group("awake = 1", &[("b", engine.address)]);
    let gateway = Traced::start(&config, &collector.endpoint()).await;
    let address = gateway.replica.address;
    let answer = whole(send(address, completion("B")).await.unwrap()).await;
    assert_eq!(answer.body, "b /v1/completions");
    let order = wait(&collector, |span| span.name == "order");
    for (name, expected) in [("order", "wake"), ("model", "B"), ("instance", "b")] {
        assert_eq!(order.attribute(name), Some(expected), "{order:#?}");
    }
    let request = wait(&collector, |span| span.attribute("function") == Some("b"));
    assert_eq!(request.attribute("outcome"), Some("served"), "{request:#?}");
    let candidates = request.event_attribute("dispatched", "candidates").unwrap();
    // It may have come before the engine's state was known.
    let states = ["b 0/256 asleep", "b 0/256 unknown"];
    assert!(states.contains(&candidates), "{candidates}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_not_sampled_has_no_span_and_its_instance_knows_that() {
    let collector = Collector::start();
    let instance = Instance::start("embed", Mode::Answer);
    let config = function("embed", "", &[instance.address], 1);
    let gateway = Traced::start(&config, &collector.endpoint()).await;
    gateway.ask(Some(&format!("00-{TRACE}-{CLIENT}-00"))).await;
    let seen = instance.seen();
    let passed_on = seen.last().unwrap().headers["traceparent"]
        .to_str()
        .unwrap();
    assert!(
        passed_on.starts_with(&format!("00-{TRACE}-")) && passed_on.ends_with("-00"),
        "{passed_on}"
    );
    // A later one without a trace has its own.
    gateway.ask(None).await;
    let span = wait(&collector, |span| span.name == "request");
    assert!(span.trace != TRACE && span.parent.is_empty(), "{span:#?}");
    assert!(collector.spans().iter().all(|span| span.trace != TRACE));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_behind_tls_is_trusted_by_the_system_s_certificates() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let collector = Collector::start_tls(&certificate, &made.signing_key.serialize_pem());
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, certificate).unwrap();
    let instance = Instance::start("embed", Mode::Answer);
    let config = function("embed", "", &[instance.address], 1);
    let trusted = [("SSL_CERT_FILE", roots.as_os_str())];
    let gateway = Traced::start_with(&config, &collector.endpoint(), &trusted).await;
    gateway.ask(None).await;
    wait(&collector, |span| span.name == "request");
    // Without that trust it gets no spans, and requests are served.
    let stranger = Traced::start(&config, &collector.endpoint()).await;
    let before = collector.spans().len();
    assert_eq!(stranger.ask(None).await, "embed");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(collector.spans().len(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_served_while_no_collector_listens() {
    let instance = Instance::start("embed", Mode::Answer);
    let config = function("embed", "", &[instance.address], 1);
    let nobody = format!("http://{}", free_address());
    let gateway = Traced::start(&config, &nobody).await;
    for _ in 0..10 {
        assert_eq!(gateway.ask(None).await, "embed");
    }
}

#[test]
fn an_address_that_is_none_is_an_error_that_names_it() {
    for (endpoint, because) in [("ftp://x:1", "scheme"), ("http://[", "invalid")] {
        let output = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"))
            .args(["run", "--config", "none.toml", "--otlp-endpoint", endpoint])
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.contains(endpoint)
                && error.contains(because)
                && error.contains("expected http://"),
            "{error}"
        );
    }
}
