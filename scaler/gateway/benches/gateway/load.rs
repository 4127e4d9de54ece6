//! Measurements of one proxy.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use crate::Settings;
use crate::backend::{Backend, Work};
use crate::client::{
    Arrivals, From, Question, ask, closed, connect, open, open_in_turn, percentile,
};
use crate::proxies::Kind;
use crate::reference::Instances;
use crate::report::{Latency, Memory, Missed, Speed};
use crate::target::Target;
use crate::usage::{cpu_seconds, resident_mb};

/// Connections of the throughput.
const BUSY: usize = 64;
/// Rate of the added latency, in requests per second of each proxy: far from what any carries, so that
/// most requests are alone.
pub const CALM: f64 = 100.0;
/// Time of the added latency in each round, in times of the throughput: one request in a hundred counts.
const CALM_TIMES: u32 = 8;
/// Requests at a time of the memory.
const ACTIVE: usize = 1_000;
/// Time after which connections and requests are where their number leads them.
const SETTLE: Duration = Duration::from_secs(2);
/// Slots of the instances of unequal size, and the time of a request in each.
const SLOTS: [usize; 5] = [1, 2, 4, 8, 16];
const LATENCY: Duration = Duration::from_millis(40);
/// The objective: the time of a request, and once more for the wait.
const SLO: Duration = Duration::from_millis(80);
/// The objective where none is measured: far above any latency.
const AMPLE: Duration = Duration::from_secs(1);
/// Load in parts of the capacity.
const LOADED: f64 = 0.85;
const SEED: u64 = 0x007e_7215;

/// Instances that answer at once.
async fn quick() -> Result<Vec<Backend>> {
    let work = Work {
        slots: 4_096,
        latency: Duration::ZERO,
    };
    Ok(vec![
        Backend::start(work).await?,
        Backend::start(work).await?,
    ])
}

fn targets(backends: &[Backend]) -> Vec<Target> {
    backends.iter().map(Backend::target).collect()
}

/// Percentiles of latencies in seconds.
pub fn latency(sorted: &[f64]) -> Latency {
    Latency {
        p50_us: percentile(sorted, 50.0) * 1e6,
        p99_us: percentile(sorted, 99.0) * 1e6,
    }
}

/// Latencies without a proxy, and through each of them, in seconds. Requests go to all of them in turn, so that
/// a machine that is slow for a while is so for all.
pub async fn calm(settings: &Settings, kinds: &[Kind]) -> Result<(Vec<f64>, Vec<Vec<f64>>)> {
    let backends = quick().await?;
    let mut addresses = vec![backends[0].address];
    let mut proxies = Vec::new();
    for kind in kinds {
        let proxy = kind.start(settings, &targets(&backends), AMPLE).await?;
        closed(proxy.address, BUSY, Duration::from_secs(1), Question::Text).await?;
        addresses.push(proxy.address);
        proxies.push(proxy);
    }
    let arrivals = Arrivals {
        rate: CALM * addresses.len() as f64,
        time: settings.seconds * CALM_TIMES,
        seed: SEED,
        from: From::Sent,
        question: Question::Text,
    };
    let mut all = open_in_turn(&addresses, arrivals).await?;
    let direct = all.remove(0);
    for (kind, sorted) in kinds.iter().zip(&all) {
        let name = kind.name();
        ensure!(
            percentile(sorted, 100.0).is_finite(),
            "{name}: requests failed"
        );
    }
    Ok((direct, all))
}

/// Requests per second of a proxy.
pub async fn speed(settings: &Settings, kind: Kind) -> Result<Speed> {
    let backends = quick().await?;
    let proxy = kind.start(settings, &targets(&backends), AMPLE).await?;
    closed(proxy.address, BUSY, Duration::from_secs(1), Question::Text).await?;
    let before = cpu_seconds(proxy.pid())?;
    let answers = closed(proxy.address, BUSY, settings.seconds, Question::Text).await?;
    let cpu = cpu_seconds(proxy.pid())? - before;
    Ok(Speed {
        per_core: answers as f64 / cpu,
        per_second: answers as f64 / settings.seconds.as_secs_f64(),
    })
}

pub async fn memory(settings: &Settings, kind: Kind) -> Result<Memory> {
    let backends = quick().await?;
    let proxy = kind.start(settings, &targets(&backends), AMPLE).await?;
    closed(proxy.address, BUSY, Duration::from_secs(1), Question::Text).await?;
    let start_mb = resident_mb(proxy.pid())?;
    let mut idle = Vec::new();
    while idle.len() < settings.idle {
        let mut connection = connect(proxy.address).await?;
        // A connection used once, as those of clients are.
        ask(&mut connection, Question::Text).await?;
        idle.push(connection);
    }
    // Those that were opened last are idle after a moment, too.
    tokio::time::sleep(SETTLE).await;
    let idle_mb = resident_mb(proxy.pid())?;
    drop(idle);
    for backend in &backends {
        backend.open(false);
    }
    let mut active = JoinSet::new();
    for _ in 0..ACTIVE {
        let mut connection = connect(proxy.address).await?;
        active.spawn(async move { ask(&mut connection, Question::Text).await });
    }
    tokio::time::sleep(SETTLE).await;
    let active_mb = resident_mb(proxy.pid())?;
    for backend in &backends {
        backend.open(true);
    }
    while let Some(answered) = active.join_next().await {
        let status = answered??;
        ensure!(status.is_success(), "{}: status {status}", kind.name());
    }
    Ok(Memory {
        start_mb,
        idle_mb,
        active_mb,
    })
}

pub async fn missed(settings: &Settings, kind: Kind) -> Result<Missed> {
    let mut backends = Vec::new();
    for slots in SLOTS {
        backends.push(
            Backend::start(Work {
                slots,
                latency: LATENCY,
            })
            .await?,
        );
    }
    let rate = SLOTS.iter().sum::<usize>() as f64 / LATENCY.as_secs_f64();
    loaded(
        settings,
        kind,
        &targets(&backends),
        rate,
        SLO,
        Question::Text,
    )
    .await
}

/// The same with reference instances.
pub async fn missed_at(settings: &Settings, kind: Kind, instances: &Instances) -> Result<Missed> {
    let (rate, slo) = (instances.rate(), instances.objective());
    loaded(
        settings,
        kind,
        &instances.targets(),
        rate,
        slo,
        Question::Tokens,
    )
    .await
}

async fn loaded(
    settings: &Settings,
    kind: Kind,
    targets: &[Target],
    rate: f64,
    objective: Duration,
    question: Question,
) -> Result<Missed> {
    let proxy = kind.start(settings, targets, objective).await?;
    let arrivals = Arrivals {
        rate: rate * LOADED,
        time: settings.load,
        seed: SEED,
        from: From::Due,
        question,
    };
    let latencies = open(proxy.address, arrivals).await?;
    let missed = latencies
        .iter()
        .filter(|latency| **latency > objective.as_secs_f64())
        .count();
    Ok(Missed {
        requests: latencies.len(),
        missed,
        latency: latency(&latencies),
    })
}
