//! Polls of gateways, and wakes of functions without an instance.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tetris_scaler_core::Rate;
use tokio::time::{MissedTickBehavior, interval};

use super::loads::Answers;
use super::parts::{LEAST, Operator};
use super::records::{FunctionRecord, PodRecord};
use super::shared::Shared;
use crate::gateways::{Gateway, GatewayError, GatewayReading, PORT, Page};
use crate::load::LoadError;
use crate::resources::{CheckedFunction, LoadSource};
use crate::state::{Key, Snapshot};

/// Interval of polls of each gateway: a quarter of the time in which a request that waits should have an
/// instance started.
const POLL: Duration = Duration::from_millis(250);
/// Number of polls between two measurements of all functions.
const POLLS_PER_MEASUREMENT: u32 = 4;

/// Memory of one loop of polls.
#[derive(Debug, Default)]
struct Told {
    /// Classes of the errors of each gateway since its last answer: each is news once.
    errors: BTreeMap<String, BTreeSet<&'static str>>,
    /// Loads that passes have seen: the rate, or the reason it is unknown.
    loads: BTreeMap<Key, Result<Rate, &'static str>>,
    /// Times of the last wakes, in monotonic milliseconds.
    wakes: BTreeMap<Key, u64>,
}

/// Polls all gateways for ever. A gateway that does not answer does not delay the polls of others.
pub(super) async fn follow(operator: &Operator, shared: &Shared) {
    let mut told = Told::default();
    let mut asked = FuturesUnordered::new();
    let mut busy = BTreeSet::new();
    let mut polls = 0_u32;
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let Some(pods) = shared.watches.pods.all() else {
                    continue;
                };
                let gateways = gateways(&pods, &operator.options.gateways);
                shared.gateways.set(&gateways, shared.clock());
                for gateway in gateways {
                    if busy.insert(gateway.pod.clone()) {
                        asked.push(async move {
                            let answer = operator.gateways.loads(&gateway).await;
                            (gateway, answer)
                        });
                    }
                }
                if polls == 0 {
                    measure(operator, shared, &mut told);
                }
                polls = polls.wrapping_add(1) % POLLS_PER_MEASUREMENT;
            }
            Some((gateway, answer)) = asked.next(), if !asked.is_empty() => {
                busy.remove(&gateway.pod);
                answered(operator, shared, &mut told, &gateway, answer);
            }
        }
    }
}

/// Returns the gateways of `namespace`.
fn gateways(pods: &BTreeMap<Key, Arc<PodRecord>>, namespace: &str) -> Vec<Gateway> {
    let all = pods.values().filter(|pod| pod.key.namespace == namespace);
    let all = all.filter_map(|pod| {
        let gateway = pod.gateway?;
        Some(Gateway {
            pod: pod.key.name.clone(),
            address: SocketAddr::new(gateway.address, PORT),
            is_ready: gateway.is_ready,
        })
    });
    all.collect()
}

fn answered(
    operator: &Operator,
    shared: &Shared,
    told: &mut Told,
    gateway: &Gateway,
    answer: Result<Page, GatewayError>,
) {
    match shared.gateways.answered(gateway, answer, shared.clock()) {
        Ok(waiting) => {
            told.errors.remove(&gateway.pod);
            wake(operator, shared, told, &waiting);
        }
        // It starts or ends, and nothing is expected of it.
        Err(error) if !gateway.is_ready => tracing::debug!("{error}"),
        Err(error) => {
            operator.metrics.failed(error.class());
            let known = told.errors.entry(gateway.pod.clone()).or_default();
            if known.insert(error.class()) {
                tracing::warn!("{error}");
            } else {
                tracing::debug!("{error}");
            }
        }
    }
}

/// Has a pass made at once if one of the functions in `waiting` has no instance. For one function, that
/// is at most as often as passes are: there may be no room for an instance.
fn wake(operator: &Operator, shared: &Shared, told: &mut Told, waiting: &[Key]) {
    if waiting.is_empty() {
        return;
    }
    let Some(functions) = shared.watches.functions.all() else {
        return;
    };
    let snapshot = Arc::clone(&operator.published.borrow());
    let now_ms = shared.clock();
    let is_recent = |at_ms: u64| u128::from(now_ms.saturating_sub(at_ms)) < LEAST.as_millis();
    told.wakes.retain(|_, at_ms| is_recent(*at_ms));
    for key in waiting {
        let Some((record, function)) = functions.get(key).and_then(|function| counted(function))
        else {
            continue;
        };
        if has_instances(&snapshot, key) || told.wakes.contains_key(key) {
            continue;
        }
        told.wakes.insert(key.clone(), now_ms);
        let reading = reading(shared, record, function, now_ms);
        shared
            .loads
            .measured(record, function.window_ms, now_ms, Answers::from(reading));
        tracing::info!(function = %key, "a request waits and there is no instance");
        shared.woken.notify_one();
    }
}

/// Returns true if the last pass decided on an instance of `function`.
fn has_instances(snapshot: &Snapshot, function: &Key) -> bool {
    let state = snapshot.functions.get(function);
    let replicas = state.map(|state| &state.decision.replicas);
    replicas.is_some_and(|replicas| replicas.values().any(|count| *count > 0))
}

/// Measures all functions whose load gateways count, and passes on loads that changed.
fn measure(operator: &Operator, shared: &Shared, told: &mut Told) {
    let now_ms = shared.clock();
    let (ready, answering) = shared.gateways.counts(now_ms);
    operator.metrics.gateways(ready, answering);
    let Some(functions) = shared.watches.functions.all() else {
        return;
    };
    let (mut has_changed, mut is_complete) = (false, true);
    told.loads.retain(|key, _| functions.contains_key(key));
    for (record, function) in functions.values().filter_map(|function| counted(function)) {
        let reading = reading(shared, record, function, now_ms);
        match &reading.load {
            Err(LoadError::NotAsked) => is_complete = false,
            Err(error) => operator.metrics.failed(error.class()),
            Ok(_) => {}
        }
        let now = reading.load.as_ref().copied().map_err(LoadError::reason);
        let before = told.loads.get(&record.key);
        if before.is_none_or(|before| differs(before, &now)) {
            told.loads.insert(record.key.clone(), now);
            has_changed = true;
        }
        let answers = Answers::from(reading);
        shared
            .loads
            .measured(record, function.window_ms, now_ms, answers);
    }
    let is_first = is_complete && !shared.heard.swap(is_complete, Ordering::Relaxed);
    if has_changed || is_first {
        shared.changed.notify_one();
    }
}

/// Returns a valid function whose load gateways count.
fn counted(record: &Arc<FunctionRecord>) -> Option<(&FunctionRecord, &CheckedFunction)> {
    let function = record.function.as_ref().ok()?;
    let is_counted = function.load == LoadSource::Gateway && !record.is_deleting;
    is_counted.then_some((record.as_ref(), function.as_ref()))
}

fn reading(
    shared: &Shared,
    record: &FunctionRecord,
    function: &CheckedFunction,
    now_ms: u64,
) -> GatewayReading {
    let (slo, percentile) = (function.slo, function.percentile);
    shared.gateways.of(&record.key, slo, percentile, now_ms)
}

/// Returns true if a load became known or unknown, or changed by more than a tenth.
fn differs(before: &Result<Rate, &'static str>, now: &Result<Rate, &'static str>) -> bool {
    match (before, now) {
        (Ok(before), Ok(now)) => {
            let (before, now) = (before.micro_rps(), now.micro_rps());
            before.abs_diff(now) > before / 10
        }
        (before, now) => before != now,
    }
}
