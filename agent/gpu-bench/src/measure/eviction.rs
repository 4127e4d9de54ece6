//! A model leaves the device for another one, and comes back.

use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, capacity_for};
use crate::report::{Findings, Settings, Unit};
use crate::role::Job;
use crate::role::turns::{Turn, TurnsJob};

/// The model's halves take turns on a device with room for one of them.
pub struct Eviction;

impl<D: Backend> Measure<D> for Eviction {
    fn about(&self) -> &'static str {
        "two models take turns on a device with room for one of them: from asking for a model until the other has left and all of it has arrived"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        Needs {
            device_bytes: capacity_for(model_bytes / 2, settings.chunk_bytes),
            ..Needs::default()
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let (one, other) = bench.model.halves();
        let larger = one.bytes().max(other.bytes());
        // Room for one and a half: both do not fit, however chunks are filled.
        let mut server = bench.serve(larger + larger / 2)?;
        let mut client = bench.start(Job::Turns(TurnsJob {
            socket: server.socket.clone(),
            models: vec![one.clone(), other.clone()],
        }))?;
        client.hear::<()>()?;
        // The device fills.
        let mut turn = || -> Result<Turn, BenchError> {
            client.go_on()?;
            client.hear()
        };
        turn()?;
        let (mut mapped, mut arrived, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..bench.settings.rounds {
            let taken = turn()?;
            let bytes = if round % 2 == 0 {
                other.bytes()
            } else {
                one.bytes()
            };
            mapped.push(taken.mapped_s);
            arrived.push(taken.arrived_s);
            rates.push(bytes as f64 / taken.arrived_s.max(1e-9));
        }
        client.end()?;
        let usage = server.usage()?;
        server.end()?;
        if usage.evicted < u64::from(bench.settings.rounds) {
            let (expected, found) = (bench.settings.rounds, usage.evicted);
            return Err(BenchError::Bug(format!(
                "expected {expected} evictions, found {found}"
            )));
        }
        let mut findings = Findings::default();
        findings.series("mapped", Unit::Seconds, mapped);
        findings.series("evicted, copied and ready", Unit::Seconds, arrived);
        findings.series("reload rate", Unit::BytesPerSecond, rates);
        findings.figure("size of each model", Unit::Bytes, larger as f64);
        Ok(findings)
    }
}
