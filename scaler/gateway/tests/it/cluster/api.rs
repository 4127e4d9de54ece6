//! An API server with one function, its instance, other pods, and tokens that it accepts by their signature.

use std::convert::Infallible;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Channel, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use serde_json::{Value, json};
use std::net::SocketAddr;

use crate::port::Port;
use crate::server::Server;

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Starts the server. The function `search/embed` has an instance at `instance`; each of `pods` has a namespace and an
/// address.
pub fn start(instance: SocketAddr, pods: &'static [(&'static str, &'static str)]) -> Server {
    Server::start(Port::take(), move |request| answer(instance, pods, request))
}

/// Token of an account for the gateway.
pub fn token(account: &str) -> String {
    let claims = json!({"aud": ["tetris-gateway"], "sub": account}).to_string();
    format!("e30.{}.good", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

async fn answer(
    instance: SocketAddr,
    pods: &[(&str, &str)],
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query());
    let query = query.unwrap_or_default().to_owned();
    if request.method() == Method::POST {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        return Ok(whole(&review(&serde_json::from_slice(&body).unwrap())));
    }
    if query.contains("watch=") {
        return Ok(Response::new(silent()));
    }
    let items: Vec<Value> = match path.as_str() {
        "/apis/tetris.dev/v1alpha1/inferencefunctions" => vec![function()],
        "/apis/tetris.dev/v1alpha1/modelprofiles" => vec![profile()],
        "/api/v1/pods" if query.contains("labelSelector=") => vec![instance_pod(instance)],
        "/api/v1/pods" => pods
            .iter()
            .enumerate()
            .map(|(number, (namespace, address))| pod(number, namespace, address))
            .collect(),
        _ => Vec::new(),
    };
    Ok(whole(&json!({
        "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items,
    })))
}

fn whole(document: &Value) -> Answer {
    let body = Full::new(Bytes::from(document.to_string())).boxed();
    let response = Response::builder().header("content-type", "application/json");
    response.body(body).unwrap()
}

/// A watch in which nothing changes.
fn silent() -> BoxBody<Bytes, Infallible> {
    let (sender, body) = Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        let _open = sender;
        std::future::pending::<()>().await;
    });
    body.boxed()
}

fn review(review: &Value) -> Value {
    let token = review["spec"]["token"].as_str().unwrap();
    let mut parts = token.split('.').skip(1);
    let claims = BASE64_URL_SAFE_NO_PAD
        .decode(parts.next().unwrap())
        .unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": review["spec"],
        "status": {
            "authenticated": parts.next() == Some("good"),
            "audiences": claims["aud"],
            "user": {"username": claims["sub"]},
        },
    })
}

fn function() -> Value {
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "InferenceFunction",
        "metadata": {"name": "embed", "namespace": "search", "uid": "u"},
        "spec": {
            "profile": "minilm", "slo": {"latencyMillis": 1_000}, "load": {"gateway": {}},
            "callers": {"namespaces": ["web"], "accounts": ["alice"]},
            "template": {"spec": {"containers": [{"name": "main", "image": "server"}]}},
        },
    })
}

fn profile() -> Value {
    let measured = json!({
        "cpuMillis": 2_000, "ownBytes": 1_000, "batch": 4, "concurrency": 2,
        "latencyMicros": {"p50": 40_000, "p90": 45_000, "p95": 50_000, "p99": 60_000},
    });
    json!({
        "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile",
        "metadata": {"name": "minilm", "namespace": "search", "uid": "p"},
        "spec": {"model": "minilm", "unlistedBytes": 10, "configurations": [measured]},
    })
}

fn instance_pod(instance: SocketAddr) -> Value {
    let labels = json!({"tetris.dev/function": "embed", "tetris.dev/configuration": "c2000-b4-p2"});
    let port = json!({"name": "http", "containerPort": instance.port()});
    json!({
        "metadata": {"name": "instance", "namespace": "search", "uid": "i", "labels": labels},
        "spec": {"containers": [{"name": "main", "ports": [port]}]},
        "status": {
            "phase": "Running", "podIP": instance.ip(), "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(number: usize, namespace: &str, address: &str) -> Value {
    json!({
        "metadata": {"name": format!("pod-{number}"), "namespace": namespace, "uid": format!("p{number}")},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": "Running", "podIP": address},
    })
}
