//! A run from its start to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use tetris_gpu_mirror::memory::cuda::VmmDevice;
use tetris_gpu_mirror::memory::host::HostDevice;
use tetris_gpu_mirror::memory::{DeviceInfo, MemoryError};
use tetris_store_layout::{CreateOptions, Store};

use crate::backend::{Backend, DeviceChoice};
use crate::bench::{Bench, capacity_for};
use crate::calibrate::group_bytes;
use crate::machine::machine;
use crate::measure::{Name, Needs};
use crate::model::{BenchModel, Header, import, make, shapes};
use crate::process::Launcher;
use crate::progress::say;
use crate::registry::measure as measure_of;
use crate::report::{
    Device, MeasureOutcome, Measured, ModelReport, Report, SCHEMA, SIMULATED, Settings,
};
use crate::role::Janitor;
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
        // Enough for two models; unused memory costs nothing.
        let bytes = 4 * capacity_for(source.bytes(), args.chunk_bytes);
        measure::<HostDevice>(args, &source, leading, DeviceChoice::Simulated { bytes })
    } else {
        measure::<VmmDevice>(args, &source, leading, DeviceChoice::Cuda(args.device))
    };
    report.map(Some)
}

/// Source of the model.
enum Source {
    Made(Vec<(String, Vec<usize>)>),
    File(Header),
}

impl Source {
    fn of(args: &GpuBenchArgs) -> Result<Self, BenchError> {
        match &args.model {
            Some(path) => Header::read(path).map(Self::File),
            None => Ok(Self::Made(shapes(args.bytes))),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Made(shapes) => {
                let elements = shapes
                    .iter()
                    .map(|(_, shape)| shape.iter().product::<usize>());
                elements.sum::<usize>() as u64 * 2
            }
            Self::File(header) => header.bytes(),
        }
    }

    fn publish(&self, store: &Store) -> Result<BenchModel, BenchError> {
        let bar = ProgressBar::new(self.bytes());
        let template = "writing the model [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let done = |bytes| bar.inc(bytes);
        let model = match self {
            Self::Made(shapes) => make(store, shapes, &done),
            Self::File(header) => import(store, header, &done),
        };
        bar.finish_and_clear();
        model
    }

    fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Made(_) => None,
            Self::File(header) => Some(&header.path),
        }
    }
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
    let names = match args.only.as_slice() {
        [] => Name::value_variants(),
        some => some,
    };
    let mut settings = settings(args);
    let needs = needs::<D>(names, source.bytes(), &settings);
    let free = (!D::SIMULATED).then_some(info.free_bytes);
    room::check(&args.store_dir, source.bytes(), needs, free)?;
    settings.group_bytes = group_bytes(&*device)?;
    let launcher = Launcher::new(leading);
    // Dropped after the processes of the run.
    let janitor = Janitor::of(&launcher, &args.store_dir)?;
    let (store, model) = publish(source, &janitor.folder)?;
    let bench = Bench {
        device,
        info,
        choice,
        store: Arc::new(store),
        model,
        folder: janitor.folder.clone(),
        settings,
        python: args.python.clone(),
        launcher,
    };
    let measures = names.iter().map(|name| take(*name, &bench)).collect();
    let report = report(date, &bench, source, measures);
    janitor.end()?;
    Ok(report)
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
    let each = names
        .iter()
        .map(|name| measure_of::<D>(*name).needs(model_bytes, settings));
    each.fold(Needs::default(), |all, one| Needs {
        device_bytes: all
            .device_bytes
            .max(one.device_bytes + CONTEXTS * D::CONTEXT_BYTES),
        host_bytes: all.host_bytes.max(one.host_bytes),
        file_bytes: all.file_bytes.max(one.file_bytes),
    })
}

fn take<D: Backend>(name: Name, bench: &Bench<D>) -> Measured {
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
        outcome,
    }
}

fn report<D: Backend>(
    date: String,
    bench: &Bench<D>,
    source: &Source,
    measures: Vec<Measured>,
) -> Report {
    let sizes = bench.model.tensors.iter().map(|tensor| tensor.object.len);
    let notes = D::SIMULATED.then(|| SIMULATED.to_owned());
    Report {
        schema: SCHEMA,
        date,
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
        measures,
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
