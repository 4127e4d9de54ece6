//! Groups of engines that sleep, with scripted engines.

pub mod engine;
mod faults;
mod hostile;
mod switching;

use std::fmt::Write as _;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use crate::client::{Answer, send, whole};
use crate::gateway::Gateway;
use engine::Engine;

/// Text of a group with engines. Each has a model of its name, in capitals.
pub fn group(fields: &str, engines: &[(&str, SocketAddr)]) -> String {
    let mut text = format!("[engine_group.gpu]\npoll = \"100ms\"\n{fields}\n");
    for (name, address) in engines {
        let model = name.to_uppercase();
        write!(
            text,
            "[engine_group.gpu.engine.{name}]\naddress = \"{address}\"\nmodels = [\"{model}\"]\n"
        )
        .unwrap();
    }
    text
}

/// A gateway with room for one of these engines.
async fn one_of(fields: &str, engines: &[(&str, &Engine)]) -> Gateway {
    let fields = format!("awake = 1\n{fields}");
    let engines: Vec<_> = engines
        .iter()
        .map(|(name, engine)| (*name, engine.address))
        .collect();
    let gateway = Gateway::start(&group(&fields, &engines)).await;
    for (name, _) in &engines {
        state(&gateway, name, "asleep or awake").await;
    }
    gateway
}

/// A request for a completion of a model.
pub fn completion(model: &str) -> Request<Full<Bytes>> {
    body(
        "/v1/completions",
        format!(r#"{{"prompt": "x", "model": "{model}"}}"#),
    )
}

fn body(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", "gateway");
    let request = request.header("content-type", "application/json");
    request.body(Full::new(body.into())).unwrap()
}

async fn ask(gateway: &Gateway, request: Request<Full<Bytes>>) -> Answer {
    whole(send(gateway.address, request).await.unwrap()).await
}

async fn get(gateway: &Gateway, path: &str) -> Answer {
    let request = Request::get(path).header("host", "gateway");
    ask(gateway, request.body(Full::default()).unwrap()).await
}

/// The page `/engines`.
async fn engines(gateway: &Gateway) -> serde_json::Value {
    serde_json::from_str(&gateway.page("/engines").await).unwrap()
}

/// Waits until an engine is in one of these states.
async fn state(gateway: &Gateway, engine: &str, states: &str) {
    loop {
        let page = engines(gateway).await;
        let all = page["groups"][0]["engines"].as_array().unwrap();
        let entry = all.iter().find(|of| of["engine"] == engine).unwrap();
        if states.split(" or ").any(|state| entry["state"] == state) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Waits until as many requests wait in the group.
async fn waiting(gateway: &Gateway, count: usize) {
    while engines(gateway).await["groups"][0]["waiting"] != count {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
