//! Copies from the store to the device, against plain copies from pinned memory.

use tetris_gpu_server::copy::LEAST_REGISTERED_BYTES;

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, capacity_for};
use crate::report::{Findings, Limit, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::transfers::{First, Round, TransfersJob};

/// Minimum ratio of the store's rate to that of pinned memory (requirement of the mirror).
const BAR: f64 = 0.95;

/// One process copies in four ways, by turns.
pub struct Transfers;

impl<D: Backend> Measure<D> for Transfers {
    fn about(&self) -> &'static str {
        "host to device: the mirror's copies from the store, against cuMemcpyHtoDAsync from pinned memory of the same size, by turns"
    }

    fn depends_on_pages(&self) -> bool {
        true
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        let bytes = largest(model_bytes, settings);
        Needs {
            device_bytes: capacity_for(bytes, settings.chunk_bytes),
            host_bytes: bytes,
            ..Needs::default()
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let model = bench.model.beginning(bench.settings.transfer_bytes);
        let bytes = model.bytes();
        let lens = model.tensors.iter().map(|tensor| tensor.object.len);
        let registrable = lens.filter(|len| *len >= LEAST_REGISTERED_BYTES).sum();
        let mut process = bench.start(Job::Transfers(TransfersJob {
            store: bench.store.root().to_owned(),
            model,
            chunk_bytes: bench.settings.chunk_bytes,
            group_bytes: bench.settings.group_bytes,
        }))?;
        let first: First = process.hear()?;
        let mut rounds = Vec::new();
        for _ in 0..bench.settings.rounds {
            process.go_on()?;
            rounds.push(process.hear()?);
        }
        process.end()?;
        Ok(findings(bytes, registrable, first, &rounds))
    }
}

/// Upper limit of the copied bytes: a transfer ends with a whole tensor, so it can exceed the
/// setting.
fn largest(model_bytes: u64, settings: &Settings) -> u64 {
    model_bytes.min(settings.transfer_bytes.saturating_mul(2))
}

fn findings(bytes: u64, registrable: u64, first: First, rounds: &[Round]) -> Findings {
    let mut findings = Findings::default();
    let bytes_f = bytes as f64;
    let rate = |seconds: f64| bytes_f / seconds.max(1e-9);
    let mut series = |name: &str, of: &dyn Fn(&Round) -> f64| {
        let rates: Vec<f64> = rounds.iter().map(|round| rate(of(round))).collect();
        let median = middle(&rates);
        findings.series(name, Unit::BytesPerSecond, rates);
        median
    };
    let pinned = series("pinned memory, plain copies", &|round| round.pinned_s);
    let direct = series("store, pages registered before", &|round| round.direct_s);
    let staged = series("store, through pinned buffers", &|round| round.staged_s);
    let findings_of = series("store, mapped for each load", &|round| round.mapping_s);
    let first_rates = vec![rate(first.copy_s)];
    findings.series("first load", Unit::BytesPerSecond, first_rates);
    findings.figure(
        "registration after the first load",
        Unit::Seconds,
        first.register_s,
    );
    findings.figure("size of a copy", Unit::Bytes, bytes_f);
    if let Some(part) = ratio(direct, pinned) {
        let (name, bar) = ("store over pinned memory", Limit::AtLeast(BAR));
        findings.judged(name, Unit::Ratio, part, bar);
    }
    for (name, rate) in [
        ("a first load over pinned memory", findings_of),
        ("pinned buffers over pinned memory", staged),
    ] {
        if let Some(part) = ratio(rate, pinned) {
            findings.figure(name, Unit::Ratio, part);
        }
    }
    findings
        .notes
        .extend(unregistered(registrable, first.direct_bytes));
    findings
}

/// A note about pages that the driver did not register; `None` if there are none.
fn unregistered(registrable: u64, direct_bytes: u64) -> Option<String> {
    (direct_bytes < registrable).then(|| format!(
        "only {direct_bytes} of {registrable} bytes that can be registered came from registered pages; the driver or a limit on locked memory refused the others, which went through pinned buffers"
    ))
}
