//! Device memory of several processes with one model.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, Serving, capacity_for};
use crate::process::Process;
use crate::report::{Findings, Limit, Settings, Unit, ratio};
use crate::role::Job;
use crate::role::hold::HoldJob;

/// Limit of the device memory without contexts over one copy (requirement of the mirror).
const BAR: f64 = 1.02;
/// Device memory in bytes that may remain in use after the processes have ended.
const SLACK_BYTES: u64 = 16 << 20;
/// Time limit for the driver to free the memory of ended processes.
const FREE: Duration = Duration::from_secs(30);

/// Processes with contexts only, and then as many with the model.
pub struct Processes;

impl<D: Backend> Measure<D> for Processes {
    fn about(&self) -> &'static str {
        "device memory of several processes that hold one model, as the driver counts it; their contexts are measured separately"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        let contexts = D::CONTEXT_BYTES * u64::from(settings.processes);
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes) + contexts,
            ..Needs::default()
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let bytes = bench.model.bytes();
        let mut server = bench.serve(capacity_for(bytes, bench.settings.chunk_bytes))?;
        let before = used(bench, &server, &[])?;
        let contexts = start(bench, None)?;
        let with_contexts = used(bench, &server, &contexts)?;
        for process in contexts {
            process.end()?;
        }
        freed(bench, &server, before + SLACK_BYTES)?;
        let models = start(bench, Some(&server))?;
        let with_models = used(bench, &server, &models)?;
        let chunks = server.usage()?.created_bytes as f64;
        for process in models {
            process.end()?;
        }
        server.end()?;
        let contexts = with_contexts.saturating_sub(before) as f64;
        let all = with_models.saturating_sub(before) as f64;
        Ok(findings(bench, contexts, all, chunks))
    }
}

fn findings<D: Backend>(bench: &Bench<D>, contexts: f64, all: f64, chunks: f64) -> Findings {
    let (one, count) = (
        bench.model.bytes() as f64,
        f64::from(bench.settings.processes),
    );
    let mut findings = Findings::default();
    findings.figure("processes", Unit::Count, count);
    findings.figure("one copy of the model", Unit::Bytes, one);
    findings.figure("contexts alone", Unit::Bytes, contexts);
    findings.figure("with the model", Unit::Bytes, all);
    findings.figure(
        "with a copy in each process it would be",
        Unit::Bytes,
        count * one + contexts,
    );
    if let Some(copies) = ratio(chunks, one) {
        let name = "the mirror's chunks, over one copy";
        findings.figure(name, Unit::Ratio, copies);
    }
    if let Some(copies) = ratio(all - contexts, one) {
        findings.judged(
            "without contexts, over one copy",
            Unit::Ratio,
            copies,
            Limit::AtMost(BAR),
        );
    }
    if !D::SIMULATED {
        findings.note("other programs on the device would disturb these figures");
    }
    findings
}

fn start<D: Backend>(
    bench: &Bench<D>,
    server: Option<&Serving>,
) -> Result<Vec<Process>, BenchError> {
    let mut processes = Vec::new();
    for _ in 0..bench.settings.processes {
        let model = server.map(|server| (server.socket.clone(), bench.model.clone()));
        processes.push(bench.start(Job::Hold(HoldJob { model }))?);
    }
    for process in &mut processes {
        process.hear::<()>()?;
    }
    Ok(processes)
}

fn used<D: Backend>(
    bench: &Bench<D>,
    server: &Serving,
    others: &[Process],
) -> Result<u64, BenchError> {
    let ids = others.iter().map(Process::id).chain([server.id()]);
    Ok(bench.device.used_bytes(&ids.collect::<Vec<_>>())?)
}

/// Waits until at most `most` bytes are in use.
fn freed<D: Backend>(bench: &Bench<D>, server: &Serving, most: u64) -> Result<(), BenchError> {
    let deadline = Instant::now() + FREE;
    while used(bench, server, &[])? > most {
        if Instant::now() > deadline {
            return Err(BenchError::Slow {
                what: "the driver frees the memory of ended processes".to_owned(),
                seconds: FREE.as_secs(),
            });
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
