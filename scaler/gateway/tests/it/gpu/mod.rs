//! Functions on GPUs: real requests through a gateway to executors over simulated GPUs.

mod executor;
mod hostile;
mod lost;
mod memory;
mod node;
mod order;
mod refusals;
mod serving;

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::Value;

use crate::client;
use crate::gateway::Gateway;
use executor::Executor;

/// Text of a pool with functions, each with a model of the function's name.
pub fn pool(executors: &[&Executor], fields: &str, functions: &[(&str, &str)]) -> String {
    let addresses: Vec<String> = executors
        .iter()
        .map(|executor| format!("\"{}\"", executor.address))
        .collect();
    let mut text = format!(
        "[gpu_pool.main]\nexecutors = [{}]\npoll = \"20ms\"\n{fields}\n",
        addresses.join(", ")
    );
    for (name, fields) in functions {
        let slo = if fields.contains("slo =") {
            ""
        } else {
            "slo = \"60s\"\n"
        };
        write!(
            text,
            "[gpu_pool.main.function.{name}]\n{slo}latency = \"10ms\"\n{fields}\n"
        )
        .unwrap();
    }
    text
}

/// An inference request for a function, whose model has its name.
pub fn infer(function: &str) -> Request<Full<Bytes>> {
    let path = format!("/functions/{function}/v2/models/{function}/infer");
    let request = Request::post(path).header("host", "gateway");
    request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

/// Sends an inference request for a function, and returns the whole answer.
pub async fn ask(gateway: &Gateway, function: &str) -> client::Answer {
    let response = client::send(gateway.address, infer(function))
        .await
        .unwrap();
    client::whole(response).await
}

/// Value of a series on the gateway's page.
pub async fn metric(gateway: &Gateway, series: &str) -> u64 {
    let page = gateway.page("/metrics").await;
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// Waits until a series of the gateway's page has a value.
pub async fn until_metric(gateway: &Gateway, series: &str, value: u64) {
    while metric(gateway, series).await != value {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until so many executors take requests.
pub async fn available(gateway: &Gateway, executors: u64) {
    let series = "tetris_gateway_gpu_executors{pool=\"main\",available=\"yes\"}";
    until_metric(gateway, series, executors).await;
}

/// Waits until so many requests of a function wait in the gateway.
pub async fn waiting(gateway: &Gateway, function: &str, requests: u64) {
    let holds = |page: &Value| {
        let functions = page["functions"].as_array().unwrap();
        let mut matching = functions
            .iter()
            .filter(|entry| entry["function"] == function);
        matching
            .next()
            .is_some_and(|function| function["waiting"] == requests)
    };
    gateway.eventually(holds).await;
}
