//! Figures, as a table and as a document.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};
use tetris_test_support::stats;

use crate::load::{CALM, latency};
use crate::proxies::{Kind, Rule};
use crate::reference::Instances;

#[derive(Debug, Clone, Copy)]
pub struct Latency {
    pub p50_us: f64,
    pub p99_us: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Speed {
    pub per_core: f64,
    pub per_second: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Memory {
    pub start_mb: f64,
    pub idle_mb: f64,
    pub active_mb: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Missed {
    pub requests: usize,
    pub missed: usize,
    pub latency: Latency,
}

#[derive(Debug, Default)]
pub struct OfProxy {
    pub speeds: Vec<Speed>,
    /// Latencies of all rounds without much load, in seconds.
    pub latencies: Vec<f64>,
    pub memory: Option<Memory>,
    pub missed: Option<Missed>,
    pub at_reference: Option<Missed>,
}

/// Reference instances of the run.
#[derive(Debug)]
pub struct Reference {
    objective_ms: u64,
    instances: Vec<Value>,
}

impl Reference {
    pub fn of(instances: &Instances) -> Self {
        let rows = instances.all.iter().map(|instance| {
            json!({
                "cpus": instance.cpus,
                "batch": instance.target.batch,
                "concurrency": instance.target.concurrency,
                "latency_ms": instance.target.latency_ms,
                "requests_per_second": instance.rate,
            })
        });
        Self {
            objective_ms: instances.objective().as_millis() as u64,
            instances: rows.collect(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Report {
    rounds: usize,
    /// Latencies without a proxy, in seconds, taken in turn with those of the proxies of a rule.
    direct: BTreeMap<Rule, Vec<f64>>,
    pub reference: Option<Reference>,
    proxies: BTreeMap<Kind, OfProxy>,
}

fn percentiles(latencies: &[f64]) -> Latency {
    let mut sorted = latencies.to_vec();
    sorted.sort_by(f64::total_cmp);
    latency(&sorted)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    stats::median(&values.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

impl Report {
    pub fn of_rounds(rounds: usize) -> Self {
        Self {
            rounds,
            ..Self::default()
        }
    }

    pub fn of(&mut self, kind: Kind) -> &mut OfProxy {
        self.proxies.entry(kind).or_default()
    }

    pub fn direct(&mut self, rule: Rule) -> &mut Vec<f64> {
        self.direct.entry(rule).or_default()
    }

    fn without_proxy(&self, rule: Rule) -> Option<Latency> {
        self.direct.get(&rule).map(|all| percentiles(all))
    }

    /// Latency that a proxy adds: beside the direct one.
    fn added(&self, kind: Kind, of: &OfProxy, value: fn(&Latency) -> f64) -> Option<f64> {
        let direct = self.without_proxy(kind.rule())?;
        Some(value(&percentiles(&of.latencies)) - value(&direct))
    }

    fn rows(&self) -> Vec<Value> {
        let rows = self.proxies.iter().map(|(kind, of)| {
            json!({
                "proxy": kind.name(),
                "requests_per_core_second": median(of.speeds.iter().map(|speed| speed.per_core)),
                "requests_per_second": median(of.speeds.iter().map(|speed| speed.per_second)),
                "added_p50_us": self.added(*kind, of, |latency| latency.p50_us),
                "added_p99_us": self.added(*kind, of, |latency| latency.p99_us),
                "start_mb": of.memory.map(|memory| memory.start_mb),
                "idle_mb": of.memory.map(|memory| memory.idle_mb),
                "active_mb": of.memory.map(|memory| memory.active_mb),
                "missed": of.missed.map(|entry| entry.missed),
                "requests": of.missed.map(|missed| missed.requests),
                "loaded_p50_ms": of.missed.map(|missed| missed.latency.p50_us / 1e3),
                "loaded_p99_ms": of.missed.map(|missed| missed.latency.p99_us / 1e3),
                "reference_missed": of.at_reference.map(|reference| reference.missed),
                "reference_requests": of.at_reference.map(|reference| reference.requests),
                "reference_p50_ms": of.at_reference.map(|reference| reference.latency.p50_us / 1e3),
                "reference_p99_ms": of.at_reference.map(|reference| reference.latency.p99_us / 1e3),
            })
        });
        rows.collect()
    }

    pub fn print(&self) {
        println!(
            "{:<36} {:>10} {:>9} {:>9} {:>8} {:>8} {:>8} {:>15} {:>8} {:>15} {:>8}",
            "",
            "1/(core s)",
            "p50 + us",
            "p99 + us",
            "start MB",
            "idle MB",
            "1000 MB",
            "missed",
            "p99 ms",
            "at reference",
            "p99 ms"
        );
        let number = |row: &Value, field: &str| row[field].as_f64().unwrap_or(f64::NAN);
        for row in self.rows() {
            let part = |missed: &str, requests: &str| {
                let (missed, requests) = (number(&row, missed), number(&row, requests));
                format!("{missed} ({:.2} %)", missed / requests * 100.0)
            };
            let missed = part("missed", "requests");
            let at_reference = part("reference_missed", "reference_requests");
            println!(
                "{:<36} {:>10.0} {:>9.0} {:>9.0} {:>8.1} {:>8.1} {:>8.1} {missed:>15} {:>8.1} {at_reference:>15} {:>8.1}",
                row["proxy"].as_str().unwrap_or_default(),
                number(&row, "requests_per_core_second"),
                number(&row, "added_p50_us"),
                number(&row, "added_p99_us"),
                number(&row, "start_mb"),
                number(&row, "idle_mb"),
                number(&row, "active_mb"),
                number(&row, "loaded_p99_ms"),
                number(&row, "reference_p99_ms"),
            );
        }
    }

    pub fn document(&self) -> Result<String> {
        let without_proxy = self.without_proxy(Rule::Least);
        let direct = json!({
            "p50_us": without_proxy.map(|proxy| proxy.p50_us),
            "p99_us": without_proxy.map(|proxy| proxy.p99_us),
            "requests_per_second": CALM,
        });
        let reference = self.reference.as_ref();
        let reference =
            reference.map(|of| json!({"objective_ms": of.objective_ms, "instances": of.instances}));
        let document = json!({"rounds": self.rounds, "direct": direct, "reference": reference, "proxies": self.rows()});
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}
