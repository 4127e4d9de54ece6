//! Attach of a model that another process holds.

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, capacity_for};
use crate::report::{Findings, Limit, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::attach::{AttachJob, Attached, buffer_bytes};
use crate::role::hold::HoldJob;
use crate::role::turns::Turn;

/// Limit in seconds (requirement of the mirror).
const BAR_S: f64 = 0.050;

/// One process holds the model; further processes attach it one after the other.
pub struct Attach;

impl<D: Backend> Measure<D> for Attach {
    fn about(&self) -> &'static str {
        "another process attaches the resident model: time from connecting until the whole model is mapped and usable; a new process in each round"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        let buffer = buffer_bytes(model_bytes);
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes) + buffer,
            host_bytes: buffer,
            ..Needs::default()
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let bytes = bench.model.bytes();
        let mut server = bench.serve(capacity_for(bytes, bench.settings.chunk_bytes))?;
        let model = Some((server.socket.clone(), bench.model.clone()));
        let mut holder = bench.start(Job::Hold(HoldJob { model }))?;
        holder.hear::<()>()?;
        let mut samples = Vec::new();
        for _ in 0..bench.settings.rounds {
            samples.push(one(bench, &server.socket)?);
        }
        let usage = server.usage()?;
        holder.end()?;
        server.end()?;
        let copied = usage.direct_bytes + usage.staged_bytes;
        if copied != bytes {
            return Err(BenchError::Bug(format!(
                "expected {bytes} bytes to be copied once, found {copied}"
            )));
        }
        Ok(findings(&samples, usage.chunks_created))
    }
}

fn one<D: Backend>(bench: &Bench<D>, socket: &std::path::Path) -> Result<Attached, BenchError> {
    let mut process = bench.start(Job::Attach(AttachJob {
        socket: socket.to_owned(),
        model: bench.model.clone(),
    }))?;
    let attached = process.hear()?;
    process.end()?;
    Ok(attached)
}

fn findings(samples: &[Attached], chunks: u64) -> Findings {
    let mut findings = Findings::default();
    let mut series = |name: &str, of: &dyn Fn(&Attached) -> f64| {
        let values: Vec<f64> = samples.iter().map(of).collect();
        let median = middle(&values);
        findings.series(name, Unit::Seconds, values);
        median
    };
    series("driver and context (not part of attaching)", &|entry| {
        entry.context_s
    });
    series("connected", &|entry| entry.first.connected_s);
    series("asked, addresses known", &|entry| mapping(entry.first));
    series("told that all has arrived", &|entry| {
        entry.first.arrived_s - entry.first.mapped_s
    });
    let attach = series("attached: all of it", &|entry| entry.first.arrived_s);
    series("attached again in the same process", &|entry| {
        entry.again.arrived_s
    });
    let copy = series("copied again, from pinned memory", &|entry| entry.copy_s);
    findings.judged("attach", Unit::Seconds, attach, Limit::AtMost(BAR_S));
    if let Some(times) = ratio(copy, attach) {
        findings.figure("copying takes so many times as long", Unit::Ratio, times);
    }
    findings.figure("chunks imported", Unit::Count, chunks as f64);
    findings.note("the copy repeats at most 1 GiB of pinned memory to as much device memory, both allocated before");
    findings
}

fn mapping(turn: Turn) -> f64 {
    turn.mapped_s - turn.connected_s
}
