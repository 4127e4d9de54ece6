//! The device without the mirror: the fastest plain copies, and other loaders.

use std::collections::BTreeMap;

use super::loader::{Hello, Loader, Way, file};
use super::{Measure, Needs};
use crate::BenchError;
use crate::backend::Backend;
use crate::bench::Bench;
use crate::model::write_file;
use crate::report::{Findings, Settings, Unit, middle};
use crate::role::Job;
use crate::role::attach::buffer_bytes;
use crate::role::peak::{PeakJob, PeakSample};

/// The loaders, and their names in the report.
const LOADERS: [(Way, &str); 4] = [
    (Way::PinnedCopies, "torch, copies from pinned memory"),
    (Way::LoadFile, "safetensors"),
    (Way::LoadFilePread, "safetensors, pread"),
    (Way::RunAi, "Run:ai model streamer"),
];

/// Plain copies, and loaders of the same file by turns.
pub struct Anchors;

impl<D: Backend> Measure<D> for Anchors {
    fn about(&self) -> &'static str {
        "the device without the mirror: the fastest plain copies from pinned memory, and the model's file loaded by other libraries, by turns"
    }

    fn depends_on_pages(&self) -> bool {
        true
    }

    fn needs(&self, model_bytes: u64, _: &Settings) -> Needs {
        let buffer = buffer_bytes(model_bytes);
        if D::SIMULATED {
            return Needs {
                device_bytes: buffer,
                host_bytes: buffer,
                ..Needs::default()
            };
        }
        Needs {
            device_bytes: (model_bytes
                + model_bytes / 16
                + LOADERS.len() as u64 * D::CONTEXT_BYTES)
                .max(buffer),
            // One of the loaders has the model in pinned memory, and others have buffers.
            host_bytes: model_bytes + buffer,
            file_bytes: model_bytes,
        }
    }

    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError> {
        let mut findings = Findings::default();
        peak(bench, &mut findings)?;
        if D::SIMULATED {
            findings.note("no loader measured: the simulated device is host memory, which they map instead of copying");
            return Ok(findings);
        }
        let path = file(bench);
        write_file(&bench.store, &bench.model, &path)?;
        loaders(bench, &mut findings);
        std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
        Ok(findings)
    }
}

/// Measures the plain copies.
fn peak<D: Backend>(bench: &Bench<D>, findings: &mut Findings) -> Result<(), BenchError> {
    let mut process = bench.start(Job::Peak(PeakJob {
        model_bytes: bench.model.bytes(),
    }))?;
    process.hear::<()>()?;
    let mut samples: BTreeMap<(u64, usize), Vec<f64>> = BTreeMap::new();
    for _ in 0..bench.settings.rounds {
        process.go_on()?;
        for sample in process.hear::<Vec<PeakSample>>()? {
            let way = (sample.copy_bytes, sample.streams);
            samples
                .entry(way)
                .or_default()
                .push(sample.bytes_per_second);
        }
    }
    process.end()?;
    fastest(samples, findings);
    Ok(())
}

/// Adds the rates of all ways to copy, and those of the fastest once more.
fn fastest(samples: BTreeMap<(u64, usize), Vec<f64>>, findings: &mut Findings) {
    let best = samples
        .iter()
        .map(|(way, rates)| (middle(rates), *way))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    for ((bytes, streams), rates) in samples {
        let name = format!(
            "pinned memory, copies of {} MiB on {streams} stream{}",
            bytes >> 20,
            if streams == 1 { "" } else { "s" }
        );
        findings.series(name, Unit::BytesPerSecond, rates);
    }
    if let Some((rate, (bytes, streams))) = best {
        findings.figure("pinned memory, peak", Unit::BytesPerSecond, rate);
        findings.figure("size of its copies", Unit::Bytes, bytes as f64);
        findings.figure("number of its streams", Unit::Count, streams as f64);
    }
}

/// Measures the loaders that this machine has. Notes the reasons for the others.
fn loaders<D: Backend>(bench: &Bench<D>, findings: &mut Findings) {
    let mut running = Vec::new();
    for (way, name) in LOADERS {
        match first(bench, way) {
            Ok((loader, versions)) => {
                findings.note(format!("{name}: {versions}"));
                running.push((name, loader, Vec::new()));
            }
            Err(reason) => findings.note(format!("{name}: not measured: {reason}")),
        }
    }
    for _ in 0..bench.settings.rounds {
        // One that fails has no more turns, and no samples: the others are not disturbed.
        running.retain_mut(|(name, loader, seconds)| match loader.load() {
            Ok(time) => {
                seconds.push(time);
                true
            }
            Err(error) => {
                let loads = seconds.len();
                findings.note(format!("{name}: failed after {loads} loads: {error}"));
                false
            }
        });
    }
    for (name, loader, seconds) in running {
        let bytes = bench.model.bytes() as f64;
        let rates = seconds.iter().map(|time| bytes / time.max(1e-9)).collect();
        findings.series(format!("{name}, time"), Unit::Seconds, seconds);
        findings.series(name, Unit::BytesPerSecond, rates);
        if let Err(error) = loader.end() {
            findings.note(format!("{name}: {error}"));
        }
    }
    findings.note("the first load of each loader is not counted");
}

/// Starts a loader, and loads once. The error is the reason for none.
fn first<D: Backend>(bench: &Bench<D>, way: Way) -> Result<(Loader, String), String> {
    let (mut loader, hello) = Loader::of(bench, way).map_err(|error| error.to_string())?;
    match hello {
        Hello::Missing(reason) => Err(reason),
        Hello::Ready(versions) => {
            loader.load().map_err(|error| error.to_string())?;
            let (torch, cuda, library) = (versions.torch, versions.cuda, versions.library);
            Ok((loader, format!("{library}, torch {torch} with CUDA {cuda}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_best_median_and_not_the_best_sample() {
        let samples = BTreeMap::from([
            ((1 << 20, 1), vec![1.0, 9.0, 1.0]),
            ((4 << 20, 2), vec![3.0, 2.0, 3.0]),
        ]);
        let mut findings = Findings::default();
        fastest(samples, &mut findings);
        let figures: Vec<_> = findings
            .figures
            .iter()
            .map(|figure| figure.value as u64)
            .collect();
        assert_eq!(figures, [3, 4 << 20, 2]);
        let names: Vec<_> = findings
            .series
            .iter()
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "pinned memory, copies of 1 MiB on 1 stream",
                "pinned memory, copies of 4 MiB on 2 streams"
            ]
        );
    }
}
