//! Eviction of a model for another one, and its return.

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, Serving, capacity_for};
use crate::model::BenchModel;
use crate::report::{Findings, Settings, Unit};
use crate::role::Job;
use crate::role::attach::GRANULE_BYTES;
use crate::role::turns::{Turn, TurnsJob};

/// Minimum length of a half in bytes: two granules, so that one and a half of them are less than
/// both.
const LEAST_BYTES: u64 = 2 * GRANULE_BYTES;

/// Number of turns that are not counted.
const FIRST: usize = 2;

/// The model's halves take turns on a device with room for one of them.
pub struct Eviction;

impl<D: Backend> Measure<D> for Eviction {
    fn about(&self) -> &'static str {
        "two models take turns on a device with room for one: time from the request for a model until the other is evicted and the whole model has arrived"
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
        let none = bench.model.halves(LEAST_BYTES).is_none();
        none.then(|| {
            "the model's tensors do not make two models of similar size, 4 MiB at least".to_owned()
        })
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let halves = bench.model.halves(LEAST_BYTES);
        let (one, other) = halves.ok_or_else(|| BenchError::Bug("no halves".to_owned()))?;
        let larger = one.bytes().max(other.bytes());
        // Room for one and a half: both do not fit, in any arrangement of chunks.
        let room = larger + one.bytes().min(other.bytes()) / 2;
        let mut server = bench.serve(room.next_multiple_of(GRANULE_BYTES))?;
        let turns = turns(bench, &server, &one, &other)?;
        let usage = server.usage()?;
        server.end()?;
        if usage.evicted < u64::from(bench.settings.rounds) {
            let (expected, found) = (bench.settings.rounds, usage.evicted);
            return Err(BenchError::Bug(format!(
                "expected {expected} evictions, found {found}"
            )));
        }
        let mut findings = Findings::default();
        let mut series = |name: &str, unit: Unit, of: &dyn Fn(&(u64, Turn)) -> f64| {
            findings.series(name, unit, turns.iter().map(of).collect());
        };
        series("mapped", Unit::Seconds, &|(_, turn)| turn.mapped_s);
        series("evicted, copied and ready", Unit::Seconds, &|(_, turn)| {
            turn.arrived_s
        });
        series("reload rate", Unit::BytesPerSecond, &|(bytes, turn)| {
            *bytes as f64 / turn.arrived_s.max(1e-9)
        });
        findings.figure("size of each model", Unit::Bytes, larger as f64);
        Ok(findings)
    }
}

/// Measures the turns: for each counted round the model's length in bytes, and its times. Leaves
/// out the first turn of each model, which maps and registers its pages.
fn turns<D: Backend>(
    bench: &Bench<D>,
    server: &Serving,
    one: &BenchModel,
    other: &BenchModel,
) -> Result<Vec<(u64, Turn)>, BenchError> {
    let mut client = bench.start(Job::Turns(TurnsJob {
        socket: server.socket.clone(),
        models: vec![one.clone(), other.clone()],
    }))?;
    client.hear::<()>()?;
    let sizes = [one.bytes(), other.bytes()].into_iter().cycle();
    let mut turns = Vec::new();
    for bytes in sizes.take(FIRST + bench.settings.rounds as usize) {
        client.go_on()?;
        turns.push((bytes, client.hear()?));
    }
    client.end()?;
    Ok(turns.split_off(FIRST.min(turns.len())))
}
