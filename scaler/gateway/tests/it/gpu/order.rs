//! The policies in gateways in separate processes, with the same functions, requests, models and
//! GPUs.
//!
//! Four GPUs in two pairs, each pair at one switch; forty functions of three families. Time runs
//! slower by a factor, so that a machine under load distorts little of it. A request counts as failed
//! if it is refused, or late by the factor's time.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hyper::StatusCode;

use super::executor::Executor;
use super::infer;
use super::node::{Model, Node, Rules};
use crate::client;
use crate::replica::{Replica, free_address};

const FUNCTIONS: usize = 40;
const GPUS: usize = 4;
/// Device memory of each GPU, which holds two models of the largest family.
const MEMORY_BYTES: u64 = 3_500_000_000;
/// Bandwidth of each switch, in bytes per second.
const HOST_BYTES_PER_S: u64 = 12_000_000_000;
/// Bandwidth of links within a pair and across, in bytes per second.
const PEER_BYTES_PER_S: [u64; 2] = [48_000_000_000, 24_000_000_000];
/// Time of the run before it is slowed, in milliseconds; requests count after its first tenth.
const RUN_MS: u64 = 4_000;
/// Factor by which time is slowed.
const SLOWER: u32 = 6;
/// Time between two requests of a function, in milliseconds.
const PERIODS_MS: [u64; 3] = [500, 750, 1_500];

/// Models of one architecture, nine tenths of whose bytes are the same.
struct Family {
    bytes: u64,
    infer_ms: u64,
    after_load_ms: u64,
    slo_ms: u64,
}

/// As large and as fast as ResNet-152, DenseNet-201 and BERT for questions.
const FAMILIES: [Family; 3] = [
    Family {
        bytes: 240_000_000,
        infer_ms: 26,
        after_load_ms: 3,
        slo_ms: 80,
    },
    Family {
        bytes: 80_000_000,
        infer_ms: 31,
        after_load_ms: 3,
        slo_ms: 80,
    },
    Family {
        bytes: 1_340_000_000,
        infer_ms: 40,
        after_load_ms: 37,
        slo_ms: 200,
    },
];

/// A policy in the gateway's file.
#[derive(Clone, Copy, Debug)]
enum Policy {
    LoadBalancing,
    Sharing,
}

impl Policy {
    fn name(self) -> &'static str {
        match self {
            Self::LoadBalancing => "lb",
            Self::Sharing => "sharing",
        }
    }

    /// The node: parts are shared, and copied between GPUs, only where the policy does so.
    fn node(self) -> Rules {
        let shares = matches!(self, Self::Sharing);
        let model = |function: usize| {
            let (number, family) = family(function);
            let id = |object: &str| {
                if shares {
                    object.to_owned()
                } else {
                    format!("{function} {object}")
                }
            };
            let own_bytes = family.bytes / 10;
            Model {
                name: format!("f{function}"),
                parts: vec![
                    (id(&format!("base {number}")), family.bytes - own_bytes),
                    (id(&format!("own {function}")), own_bytes),
                ],
                infer: Duration::from_millis(family.infer_ms) * SLOWER,
                after_load: Duration::from_millis(family.after_load_ms) * SLOWER,
            }
        };
        let slowed = |speed: u64| speed / u64::from(SLOWER);
        Rules {
            gpus: GPUS,
            capacity_bytes: MEMORY_BYTES,
            bytes_per_s: slowed(HOST_BYTES_PER_S),
            peers: shares.then(|| PEER_BYTES_PER_S.map(slowed)),
            models: (0..FUNCTIONS).map(model).collect(),
        }
    }

    fn config(self, executors: &[Executor]) -> String {
        let addresses: Vec<String> = executors
            .iter()
            .map(|executor| format!("\"{}\"", executor.address))
            .collect();
        let mut text = format!(
            "[gpu_pool.main]\nexecutors = [{}]\npoll = \"50ms\"\n[gpu_pool.main.policy]\nname = \"{}\"\n",
            addresses.join(", "),
            self.name()
        );
        for function in 0..FUNCTIONS {
            let (_, family) = family(function);
            let slowed = |ms: u64| ms * u64::from(SLOWER);
            write!(
                text,
                "[gpu_pool.main.function.f{function}]\nslo = {}\nlatency = {}\nafter_load = {}\n",
                slowed(family.slo_ms),
                slowed(family.infer_ms),
                slowed(family.after_load_ms)
            )
            .unwrap();
        }
        text
    }
}

fn family(function: usize) -> (usize, &'static Family) {
    let number = function % FAMILIES.len();
    (number, &FAMILIES[number])
}

/// Arrivals in milliseconds and their functions, in order: each function asks at its interval, and
/// begins at its own time.
fn requests() -> Vec<(u64, usize)> {
    let of_function = |function: usize| {
        let period = PERIODS_MS[function / FAMILIES.len() % PERIODS_MS.len()];
        let begin = function as u64 * 389 % period;
        (begin..RUN_MS)
            .step_by(period as usize)
            .map(move |at| (at, function))
    };
    let mut all: Vec<_> = (0..FUNCTIONS).flat_map(of_function).collect();
    all.sort_unstable();
    all
}

/// Result of a run.
#[derive(Clone, Copy, Debug)]
struct Measured {
    requests: usize,
    /// Requests that were refused, or late.
    failed: usize,
    /// Bytes loaded from the host.
    host_bytes: u64,
}

/// Sends the requests through a gateway.
async fn measure(policy: Policy) -> Measured {
    let node = Node::start(policy.node());
    let executors: Vec<_> = (0..GPUS).map(|gpu| Executor::start(&node, gpu)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, policy.config(&executors)).unwrap();
    let gateway = Replica::start(&path, free_address(), free_address());
    gateway.ready().await;
    let available = format!("{{pool=\"main\",available=\"yes\"}} {GPUS}");
    while !gateway.page("/metrics").await.contains(&available) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    let address = gateway.address;
    let mut asking = Vec::new();
    for (at_ms, function) in requests() {
        let slo = Duration::from_millis(family(function).1.slo_ms) * SLOWER;
        let at = Duration::from_millis(at_ms) * SLOWER;
        tokio::time::sleep_until((began + at).into()).await;
        asking.push(tokio::spawn(async move {
            let arrived = Instant::now();
            let answer = client::send(address, infer(&format!("f{function}"))).await;
            let status = client::whole(answer.unwrap()).await.status;
            assert!(
                status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE,
                "{status}"
            );
            let in_time = status == StatusCode::OK && arrived.elapsed() <= slo;
            (at_ms >= RUN_MS / 10).then_some(in_time)
        }));
    }
    let (mut requests, mut failed) = (0, 0);
    for asked in asking {
        if let Some(in_time) = asked.await.unwrap() {
            requests += 1;
            failed += usize::from(!in_time);
        }
    }
    for executor in &executors {
        assert!(executor.most() <= 1, "one request at a time");
    }
    Measured {
        requests,
        failed,
        host_bytes: node.moved().0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sharing_fails_fewer_requests_and_moves_fewer_bytes_than_load_balancing() {
    let balanced = tokio::spawn(measure(Policy::LoadBalancing));
    let sharing = measure(Policy::Sharing).await;
    let balanced = balanced.await.unwrap();
    assert!(sharing.requests > 100, "{sharing:?}");
    assert!(sharing.failed < balanced.failed, "{sharing:?} {balanced:?}");
    assert!(
        sharing.host_bytes * 2 < balanced.host_bytes,
        "{sharing:?} {balanced:?}"
    );
}
