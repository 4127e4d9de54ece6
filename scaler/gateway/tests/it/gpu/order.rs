//! The policies in gateways of their own processes, beside the simulator's engine with the same functions, requests,
//! models and GPUs: their order is the same.
//!
//! Four GPUs in two pairs, each pair at one switch; forty functions of three families. Time runs
//! slower by a factor, so that a machine under load distorts little of it. A request counts as failed
//! if it is refused, or late by the factor's time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tetris_scaler_simulator::gpu::torpor::{Links, NodeOutcome, NodeSetting, Variant, simulate};

use super::executor::Executor;
use super::infer;
use super::node::{Model, Node, Rules};
use crate::client;
use crate::replica::{Replica, free_address};

/// Stated error: two policies count as equal in the simulator if their shares of failed requests, or
/// of the bytes from the host, differ by less, in percent.
const ERROR: u64 = 15;

/// Kinds of models, by their place in the simulator's list: ResNet-152, DenseNet-201 and Bert-qa.
const FAMILIES: [usize; 3] = [2, 4, 7];

fn setting(seconds: u64) -> NodeSetting {
    NodeSetting {
        functions: 40,
        kinds: FAMILIES.to_vec(),
        per_minute: vec![40, 80, 120],
        gpus: 4,
        memory_mb: 3_500,
        links: Links::Pairs,
        shared_permille: 900,
        lifespan_percent: 99,
        slo_us: [80_000, 200_000],
        seconds,
        seed: 1,
    }
}

/// Share of failed requests in percent, and bytes from the host.
#[derive(Clone, Copy, Debug)]
struct Measured {
    failed_percent: u64,
    host_bytes: u64,
}

impl Measured {
    fn simulated(outcome: &NodeOutcome) -> Self {
        Self {
            failed_percent: outcome.failed * 100 / outcome.requests.max(1),
            host_bytes: outcome.host_bytes,
        }
    }
}

/// Name and settings of a policy in the gateway's file.
fn policy(variant: Variant) -> &'static str {
    match variant {
        Variant::SimpleSwap => {
            "name = \"torpor\"\nby_required_count = false\navoids_interference = false\nevicts_light_first = false"
        }
        Variant::Torpor => "name = \"torpor\"",
        Variant::Lalbo3 => "name = \"lalbo3\"",
        Variant::Sharing => "name = \"sharing\"",
        other => panic!("{other:?} binds early, or is a part of another"),
    }
}

/// The node of a policy: parts are shared, and copied between GPUs, only where the policy does so.
fn rules(setting: &NodeSetting, variant: Variant, slower: u32) -> Rules {
    let shares = variant == Variant::Sharing;
    let copies = matches!(variant, Variant::Sharing | Variant::Torpor);
    let models = setting.models().into_iter().enumerate();
    let models = models.map(|(function, model)| {
        let id = |object: u64| {
            if shares {
                format!("{object}")
            } else {
                format!("{function} {object}")
            }
        };
        let parts = model.parts.iter();
        Model {
            name: format!("f{function}"),
            parts: parts.map(|part| (id(part.object.0), part.bytes)).collect(),
            infer: Duration::from_micros(model.infer_us) * slower,
            after_load: Duration::from_micros(model.after_load_us) * slower,
        }
    });
    let topology = setting.topology();
    let slowed = |speed: u64| speed / u64::from(slower);
    Rules {
        gpus: setting.gpus as usize,
        capacity_bytes: setting.memory_mb * 1_000_000,
        bytes_per_s: slowed(topology.host_bytes_per_s),
        peers: copies.then(|| [48, 24].map(|gb| slowed(gb * 1_000_000_000))),
        models: models.collect(),
    }
}

fn text(
    setting: &NodeSetting,
    rules: &Rules,
    executors: &[Executor],
    variant: Variant,
    slower: u32,
) -> String {
    let addresses: Vec<String> = executors
        .iter()
        .map(|one| format!("\"{}\"", one.address))
        .collect();
    let mut text = format!(
        "[gpu_pool.main]\nexecutors = [{}]\npoll = \"50ms\"\n[gpu_pool.main.policy]\n{}\n",
        addresses.join(", "),
        policy(variant)
    );
    let slos: BTreeMap<u32, u64> = setting
        .requests()
        .iter()
        .filter_map(|one| Some((one.function, one.deadline_us? - one.arrived_us)))
        .collect();
    for (function, model) in rules.models.iter().enumerate() {
        let slo_us = slos.get(&(function as u32)).copied().unwrap_or(80_000) * u64::from(slower);
        let (infer, after) = (model.infer.as_millis(), model.after_load.as_millis());
        write!(
            text,
            "[gpu_pool.main.function.{}]\nslo = {}\nlatency = {infer}\nafter_load = {after}\n",
            model.name,
            slo_us / 1_000
        )
        .unwrap();
    }
    text
}

/// Runs the requests through a gateway.
async fn measure(setting: NodeSetting, variant: Variant, slower: u32) -> Measured {
    let rules = rules(&setting, variant, slower);
    let node = Node::start(rules.clone());
    let mut executors = Vec::new();
    for gpu in 0..rules.gpus {
        executors.push(Executor::start(&node, gpu));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    std::fs::write(&path, text(&setting, &rules, &executors, variant, slower)).unwrap();
    let gateway = Replica::start(&path, free_address(), free_address());
    gateway.ready().await;
    let available = format!("{{pool=\"main\",available=\"yes\"}} {}", rules.gpus);
    while !gateway.page("/metrics").await.contains(&available) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    let address = gateway.address;
    let mut asking = Vec::new();
    for request in setting.requests() {
        let at = Duration::from_micros(request.arrived_us) * slower;
        let slo = Duration::from_micros(request.deadline_us.unwrap() - request.arrived_us) * slower;
        let counts = request.arrived_us >= setting.seconds * 100_000;
        tokio::time::sleep_until((began + at).into()).await;
        asking.push(tokio::spawn(async move {
            let arrived = Instant::now();
            let name = format!("f{}", request.function);
            let answer = client::send(address, infer(&name)).await.unwrap();
            let status = client::whole(answer).await.status;
            assert!(
                status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE,
                "{status}"
            );
            (counts, status == StatusCode::OK && arrived.elapsed() <= slo)
        }));
    }
    let (mut all, mut failed) = (0, 0);
    for one in asking {
        let (counts, in_time) = one.await.unwrap();
        all += u64::from(counts);
        failed += u64::from(counts && !in_time);
    }
    for executor in &executors {
        assert!(executor.most() <= 1, "one request at a time");
    }
    Measured {
        failed_percent: failed * 100 / all.max(1),
        host_bytes: node.moved().0,
    }
}

/// Runs the policies side by side, and checks their order.
#[expect(clippy::print_stdout, reason = "the figures of a run by hand")]
async fn compare(variants: &[Variant], seconds: u64, slower: u32) {
    let setting = setting(seconds);
    let runs = variants.iter().map(|&variant| {
        let run = tokio::spawn(measure(setting.clone(), variant, slower));
        let simulated = Measured::simulated(&simulate(&setting, variant));
        (variant, simulated, run)
    });
    let mut all = Vec::new();
    for (variant, simulated, run) in runs.collect::<Vec<_>>() {
        let measured = run.await.unwrap();
        println!(
            "{:<10} simulated {simulated:?}, measured {measured:?}",
            variant.name()
        );
        all.push((variant, simulated, measured));
    }
    for (one, simulated, measured) in &all {
        for (other, other_simulated, other_measured) in &all {
            let pair = format!("{} and {}", one.name(), other.name());
            if simulated.failed_percent + ERROR < other_simulated.failed_percent {
                assert!(
                    measured.failed_percent < other_measured.failed_percent,
                    "failed: {pair}"
                );
            }
            if simulated.host_bytes * (100 + ERROR) < other_simulated.host_bytes * 100 {
                assert!(
                    measured.host_bytes < other_measured.host_bytes,
                    "bytes: {pair}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_the_policies_is_that_of_the_simulator() {
    compare(&[Variant::SimpleSwap, Variant::Sharing], 4, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: just compare-gpu-policies"]
async fn the_order_of_all_policies_is_that_of_the_simulator() {
    let all = [
        Variant::SimpleSwap,
        Variant::Lalbo3,
        Variant::Torpor,
        Variant::Sharing,
    ];
    compare(&all, 20, 8).await;
}

#[test]
fn the_comparison_has_something_to_compare() {
    let setting = setting(20);
    let outcome = |variant| Measured::simulated(&simulate(&setting, variant));
    let (swap, sharing) = (outcome(Variant::SimpleSwap), outcome(Variant::Sharing));
    assert!(
        sharing.failed_percent + ERROR < swap.failed_percent,
        "{swap:?} {sharing:?}"
    );
    assert!(sharing.host_bytes * 2 < swap.host_bytes);
}
