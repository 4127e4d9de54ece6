//! A run from its start to its end.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use clap::ValueEnum;
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceInfo, MemoryError};
use tetris_store_layout::{CreateOptions, Store};

use crate::backend::{Backend, DeviceChoice};
use crate::bench::{Bench, capacity_for};
use crate::calibrate::{SIMULATED_BYTES, group_bytes};
use crate::keep::KeptReport;
use crate::machine::machine;
use crate::measure::{Name, Needs};
use crate::model::BenchModel;
use crate::process::Launcher;
use crate::progress::say;
use crate::registry::measure as measure_of;
use crate::report::{
    Device, MeasureOutcome, Measured, ModelReport, Report, SCHEMA, SIMULATED, Settings, StoreReport,
};
use crate::role::Janitor;
use crate::source::Source;
use crate::{BenchError, GpuBenchArgs, role, room};

/// Runs the measures, and removes all files. `leading` are the arguments of this program before
/// those of `args`: the names of subcommands. A process of a measure returns no report.
///
/// # Errors
///
/// [`BenchError`] if the run cannot start. A failed measure is part of the report.
pub fn run(args: &GpuBenchArgs, leading: &[&str]) -> Result<Option<Report>, BenchError> {
    if args.role {
        role::serve()?;
        return Ok(None);
    }
    let source = Source::of(args)?;
    let report = if args.simulated {
        // Enough for two models, and for the calibration; unused memory costs nothing.
        let bytes = 4 * capacity_for(source.bytes(), args.chunk_bytes);
        let bytes = bytes.max(SIMULATED_BYTES);
        measure::<HostDevice>(args, &source, leading, DeviceChoice::Simulated { bytes })
    } else {
        measure::<VmmDevice>(args, &source, leading, DeviceChoice::Cuda(args.device))
    };
    report.map(Some)
}

fn open<D: Backend>(choice: DeviceChoice) -> Result<Arc<D>, BenchError> {
    match D::open(choice) {
        Ok(device) => Ok(Arc::new(device)),
        Err(error @ MemoryError::NoDriver { .. }) => Err(BenchError::NoDevice(error)),
        Err(error) => Err(error.into()),
    }
}

fn measure<D: Backend>(
    args: &GpuBenchArgs,
    source: &Source,
    leading: &[&str],
    choice: DeviceChoice,
) -> Result<Report, BenchError> {
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let device = open::<D>(choice)?;
    let info = device.info()?;
    let mut settings = settings(args);
    let free = (!D::SIMULATED).then_some(info.free_bytes);
    for (number, place) in args.store_dir.iter().enumerate() {
        let needs = needs::<D>(&names::<D>(args, number), source.bytes(), &settings);
        room::check(place, source.bytes(), needs, free)?;
    }
    settings.group_bytes = group_bytes(&*device)?;
    let launcher = Launcher::new(leading);
    let kept = KeptReport::new(args.keep.as_ref());
    let mut report: Option<Report> = None;
    for (number, place) in args.store_dir.iter().enumerate() {
        // Dropped after the processes of the run.
        let janitor = Janitor::of(&launcher, place)?;
        let (store, model) = publish(source, &janitor.folder)?;
        let bench = Bench {
            device: Arc::clone(&device),
            info: info.clone(),
            choice,
            store: Arc::new(store),
            model,
            folder: janitor.folder.clone(),
            settings: settings.clone(),
            python: args.python.clone(),
            launcher: launcher.clone(),
        };
        let report = report.get_or_insert_with(|| begun(&date, &bench, source));
        report.stores.push(StoreReport::of(&bench.store, place));
        for name in names::<D>(args, number) {
            let measured = take(name, &bench, place);
            say(measured.text().trim_end());
            report.measures.push(measured);
            kept.write(report)?;
        }
        janitor.end()?;
    }
    let mut report = report.ok_or_else(|| BenchError::Bug("no --store-dir".to_owned()))?;
    report.complete = true;
    kept.write(&report)?;
    Ok(report)
}

/// Names of the measures for a store: the first store has all that were asked for.
fn names<D: Backend>(args: &GpuBenchArgs, store: usize) -> Vec<Name> {
    let names = match args.only.as_slice() {
        [] => Name::value_variants(),
        some => some,
    };
    let names = names.iter().copied();
    let here = |name: &Name| store == 0 || measure_of::<D>(*name).depends_on_pages();
    names.filter(here).collect()
}

fn publish(source: &Source, folder: &Path) -> Result<(Store, BenchModel), BenchError> {
    let store = Store::create(folder.join("store"), &CreateOptions::default())?;
    let model = source.publish(&store)?;
    Ok((store, model))
}

fn settings(args: &GpuBenchArgs) -> Settings {
    Settings {
        rounds: args.rounds,
        processes: args.processes,
        transfer_bytes: args.transfer_bytes,
        chunk_bytes: args.chunk_bytes,
        group_bytes: 0,
    }
}

/// Number of processes of a measure with a context, besides the counted ones.
const CONTEXTS: u64 = 3;

/// The maximum of each need over all measures.
fn needs<D: Backend>(names: &[Name], model_bytes: u64, settings: &Settings) -> Needs {
    let needs = names
        .iter()
        .map(|name| measure_of::<D>(*name).needs(model_bytes, settings));
    needs.fold(Needs::default(), |all, one| Needs {
        device_bytes: all
            .device_bytes
            .max(one.device_bytes + CONTEXTS * D::CONTEXT_BYTES),
        host_bytes: all.host_bytes.max(one.host_bytes),
        file_bytes: all.file_bytes.max(one.file_bytes),
    })
}

fn take<D: Backend>(name: Name, bench: &Bench<D>, place: &Path) -> Measured {
    let measure = measure_of::<D>(name);
    say(&format!("measuring {}: {}", name.text(), measure.about()));
    let outcome = match measure.skip(bench) {
        Some(reason) => MeasureOutcome::Skipped { reason },
        None => match measure.take(bench) {
            Ok(mut findings) => {
                if !D::SIMULATED {
                    findings.judge();
                }
                MeasureOutcome::Measured(findings)
            }
            Err(error) => MeasureOutcome::Failed {
                reason: error.to_string(),
            },
        },
    };
    Measured {
        name: name.text(),
        about: measure.about(),
        store_dir: place.display().to_string(),
        outcome,
    }
}

/// A report without stores and measures.
fn begun<D: Backend>(date: &str, bench: &Bench<D>, source: &Source) -> Report {
    let sizes = bench.model.tensors.iter().map(|tensor| tensor.object.len);
    let notes = D::SIMULATED.then(|| SIMULATED.to_owned());
    Report {
        schema: SCHEMA,
        date: date.to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        device: described::<D>(&bench.info),
        model: ModelReport {
            file: source.path().map(|path| path.display().to_string()),
            bytes: bench.model.bytes(),
            tensors: bench.model.tensors.len(),
            largest_bytes: sizes.max().unwrap_or(0),
        },
        settings: bench.settings.clone(),
        stores: Vec::new(),
        complete: false,
        measures: Vec::new(),
        notes: notes.into_iter().collect(),
    }
}

fn described<D: Backend>(info: &DeviceInfo) -> Device {
    Device {
        simulated: D::SIMULATED,
        name: info.name.clone(),
        uuid: info.uuid.to_string(),
        total_bytes: info.total_bytes,
        driver: D::driver_version(),
    }
}
