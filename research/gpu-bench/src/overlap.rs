//! Overlap of a load with the computation on tensors that have arrived.

use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, Serving, capacity_for};
use crate::measure::{Measure, Needs};
use crate::model::BenchModel;
use crate::process::Process;
use crate::products::matrices;
use crate::report::{Findings, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::attach::GRANULE_BYTES;
use crate::role::overlap::{OverlapJob, Round, Times};

/// Minimum length of a half in bytes: two granules, so that one and a half of them are less than
/// both.
const LEAST_BYTES: u64 = 2 * GRANULE_BYTES;

/// A process requests one half of the model when it is not resident; the other half takes its room
/// in between.
pub struct Overlap;

impl<D: Backend> Measure<D> for Overlap {
    fn about(&self) -> &'static str {
        "a vector times each matrix of a model: time from the request for the model until the first and the last result, waiting for each matrix alone or for all of them"
    }

    fn depends_on_pages(&self) -> bool {
        true
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes),
            ..Needs::default()
        }
    }

    fn skip(&self, bench: &Bench<D>) -> Option<String> {
        let Some((one, _)) = bench.model.halves(LEAST_BYTES) else {
            return Some("the model's tensors do not make two models of similar size, 4 MiB at least, that take each other's room".to_owned());
        };
        (matrices(&one).len() < 2)
            .then(|| "the model's first half has less than two matrices of BF16 or F32".to_owned())
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let halves = bench.model.halves(LEAST_BYTES);
        let (one, other) = halves.ok_or_else(|| BenchError::Bug("no halves".to_owned()))?;
        let larger = one.bytes().max(other.bytes());
        // Room for one and a half: both do not fit, in any arrangement of chunks.
        let room = larger + one.bytes().min(other.bytes()) / 2;
        let mut server = bench.serve(room.next_multiple_of(GRANULE_BYTES))?;
        let mut client = bench.start(Job::Overlap(OverlapJob {
            store: bench.store.root().to_owned(),
            socket: server.socket.clone(),
            measured: one.clone(),
            other: other.clone(),
        }))?;
        client.hear::<()>()?;
        // A first round fills the device and registers pages. Each round copies each half twice.
        round(&mut client, &mut server)?;
        let expected = 2 * bench.model.bytes();
        let mut rounds = Vec::new();
        for _ in 0..bench.settings.rounds {
            let (found, copied) = round(&mut client, &mut server)?;
            if copied != expected {
                return Err(BenchError::Bug(format!(
                    "expected {expected} bytes copied in a round, found {copied}"
                )));
            }
            rounds.push(found);
        }
        client.end()?;
        server.end()?;
        Ok(findings(&one, &rounds))
    }
}

/// Runs a round. Returns its times, and the number of bytes copied to the device.
fn round(client: &mut Process, server: &mut Serving) -> Result<(Round, u64), BenchError> {
    let mut copied = || -> Result<u64, BenchError> {
        let usage = server.usage()?;
        Ok(usage.direct_bytes + usage.staged_bytes)
    };
    let before = copied()?;
    client.go_on()?;
    let round = client.hear()?;
    Ok((round, copied()?.saturating_sub(before)))
}

/// Name of a way of waiting, and its times.
type Way = (&'static str, fn(&Round) -> Times);

const WAYS: [Way; 3] = [
    ("each matrix in its turn", |round| round.overlapped),
    ("after all has arrived", |round| round.loaded),
    ("resident", |round| round.resident),
];

fn findings(model: &BenchModel, rounds: &[Round]) -> Findings {
    let mut findings = Findings::default();
    let mut medians = Vec::new();
    for (way, of) in WAYS {
        let mut series = |what: &str, time: fn(Times) -> f64| {
            let samples: Vec<f64> = rounds.iter().map(|round| time(of(round))).collect();
            let median = middle(&samples);
            findings.series(format!("{what}, {way}"), Unit::Seconds, samples);
            median
        };
        let first = series("first product", |times| times.first_s);
        let last = series("whole pass", |times| times.last_s);
        medians.push((first, last));
    }
    let arrived = rounds.iter().map(|round| round.loaded.arrived_s);
    findings.series("all has arrived", Unit::Seconds, arrived.collect());
    if let [overlapped, loaded, _] = medians.as_slice() {
        gain(&mut findings, "first product", overlapped.0, loaded.0);
        gain(&mut findings, "whole pass", overlapped.1, loaded.1);
    }
    let first = matrices(model).first().map_or(0, |entry| entry.object.len);
    findings.figure("size of the model", Unit::Bytes, model.bytes() as f64);
    findings.figure("size of the first matrix", Unit::Bytes, first as f64);
    findings.note("times start before connecting; kernels are compiled before; copies are in the order of use, and the first way of waiting alternates");
    findings
}

/// Adds the ratio of waiting for all matrices to waiting for each.
fn gain(findings: &mut Findings, what: &str, overlapped: f64, loaded: f64) {
    if let Some(times) = ratio(loaded, overlapped) {
        let name = format!("{what}: waiting for all takes so many times as long");
        findings.figure(name, Unit::Ratio, times);
    }
}
