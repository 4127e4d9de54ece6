//! Loads of the mirror against `safetensors.torch.load_file`.

use super::loader::{Hello, Loader, Way, file};
use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::{Bench, capacity_for};
use crate::model::{BenchModel, write_file};
use crate::report::{Findings, Limit, Settings, Unit, middle, ratio};
use crate::role::Job;
use crate::role::turns::{Turn, TurnsJob};

/// Minimum speed-up of the mirror (its requirement).
const BAR: f64 = 3.0;

/// Loads by turns, the mirror's always onto an empty device.
pub struct LoadFile;

impl<D: Backend> Measure<D> for LoadFile {
    fn about(&self) -> &'static str {
        "load of the model from the store onto an empty device, against safetensors.torch.load_file(device=\"cuda\") of the same tensors from a hot page cache, by turns"
    }

    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs {
        if D::SIMULATED {
            return Needs::default();
        }
        Needs {
            device_bytes: capacity_for(model_bytes, settings.chunk_bytes) + model_bytes / 16,
            host_bytes: 0,
            file_bytes: model_bytes,
        }
    }

    fn depends_on_pages(&self) -> bool {
        true
    }

    fn skip(&self, bench: &Bench<D>) -> Option<String> {
        if D::SIMULATED {
            return Some("the simulated device is host memory, which load_file maps instead of copying: nothing to compare".to_owned());
        }
        // The file does not exist yet: the script only reports if it could load one.
        match Loader::of(bench, Way::LoadFile).map(|(_, hello)| hello) {
            Ok(Hello::Ready(_)) => None,
            Ok(Hello::Missing(reason)) => Some(format!(
                "{reason}; choose another interpreter with --python"
            )),
            Err(error) => Some(format!("{error}; choose another interpreter with --python")),
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let path = file(bench);
        write_file(&bench.store, &bench.model, &path)?;
        let (mut torch, hello) = Loader::of(bench, Way::LoadFile)?;
        let first = torch.load()?;
        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..bench.settings.rounds {
            theirs.push(torch.load()?);
            ours.push(from_store(bench)?.arrived_s);
        }
        torch.end()?;
        std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
        let mut findings = findings(bench.model.bytes(), first, theirs, ours);
        if let Hello::Ready(versions) = hello {
            let (torch, cuda, library) = (versions.torch, versions.cuda, versions.library);
            findings.note(format!(
                "torch {torch} with CUDA {cuda}, {library}; the file is on the store's tmpfs"
            ));
        }
        Ok(findings)
    }
}

fn findings(bytes: u64, first: f64, theirs: Vec<f64>, ours: Vec<f64>) -> Findings {
    let mut findings = Findings::default();
    let medians = (middle(&theirs), middle(&ours));
    findings.series("load_file, first time", Unit::Seconds, vec![first]);
    findings.series("load_file", Unit::Seconds, theirs);
    findings.series("the mirror's load", Unit::Seconds, ours);
    for (name, seconds) in [
        ("load_file's rate", medians.0),
        ("the mirror's rate", medians.1),
    ] {
        if let Some(rate) = ratio(bytes as f64, seconds) {
            findings.figure(name, Unit::BytesPerSecond, rate);
        }
    }
    if let Some(times) = ratio(medians.0, medians.1) {
        findings.judged(
            "load_file takes so many times as long",
            Unit::Ratio,
            times,
            Limit::AtLeast(BAR),
        );
    }
    findings.note("the mirror's time is a client's, from connecting until the whole model has arrived: it includes creating chunks; the server registers pages afterwards");
    findings
}

/// Loads through a server with an empty device. Before the measurement the server has copied one
/// small tensor, so that its streams and buffers exist, as in a daemon.
fn from_store<D: Backend>(bench: &Bench<D>) -> Result<Turn, BenchError> {
    let capacity = capacity_for(bench.model.bytes(), bench.settings.chunk_bytes);
    let server = bench.serve(capacity)?;
    let smallest = bench
        .model
        .tensors
        .iter()
        .min_by_key(|tensor| tensor.object.len);
    let small = BenchModel {
        tensors: smallest.cloned().into_iter().collect(),
    };
    let mut client = bench.start(Job::Turns(TurnsJob {
        socket: server.socket.clone(),
        models: vec![small, bench.model.clone()],
    }))?;
    client.hear::<()>()?;
    let mut turn = None;
    for _ in 0..2 {
        client.go_on()?;
        turn = Some(client.hear()?);
    }
    client.end()?;
    server.end()?;
    turn.ok_or_else(|| BenchError::Bug("expected two turns, found none".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_compared_by_medians() {
        let findings = findings(12, 9.0, vec![6.0, 6.0, 90.0], vec![2.0, 1.0, 2.0]);
        let times = findings.figures.iter().find(|figure| figure.bar.is_some());
        assert!((times.unwrap().value - 3.0).abs() < 1e-9);
    }
}
