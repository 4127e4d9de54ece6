//! A whole run: preparation, measurement of every group, summary.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::args::{Args, Preset};
use crate::data::{Outcome, Report, SCHEMA, WorkloadReport};
use crate::error::{Error, Result};
use crate::figures::{bars, papers};
use crate::measure::{Bench, agreement, budget, group, idle, inference};
use crate::plan;
use crate::process::handle::Launcher;
use crate::process::python::Python;
use crate::report::notes;
use crate::report::progress::Progress;
use crate::synthetic::table4;
use crate::system::machine::Machine;
use crate::system::store::StorePlace;
use crate::units;
use crate::workload::copies::Copies;
use crate::workload::{self, Sizing, Source, Workload};

/// Outcome of a finished run.
pub struct Outcomes {
    /// True if a method failed.
    pub failed: bool,
    /// The first difference between checksums, if any.
    pub disagreement: Option<String>,
}

/// Runs the benchmark; calls `show` for each group as soon as it is measured.
///
/// # Errors
///
/// [`Error`] if the run cannot continue. The failure of a method is part of the report.
pub fn run(
    args: &Args,
    program: PathBuf,
    show: &mut dyn FnMut(&Progress, &WorkloadReport),
) -> Result<(Report, Outcomes)> {
    let begin = Instant::now();
    let machine = Machine::inspect()?;
    let parent = args.workdir.clone().unwrap_or_else(std::env::temp_dir);
    let workdir = tempfile::Builder::new()
        .prefix("tetris-density-")
        .tempdir_in(&parent)
        .map_err(Error::io("make a directory in", &parent))?;
    let source = source(args, &machine);
    let mut progress = Progress::new(plan::costs(args)?);
    progress.say(&machine.line());
    say_source(&progress, source);
    let launcher = Launcher {
        program,
        python: Python::new(&args.python),
        deadline: Duration::from_secs(args.deadline),
    };

    let place = (workdir.path(), &launcher);
    let (workloads, disagreement) = groups(args, source, place, &mut progress, show)?;
    progress.finish();

    let outcomes = Outcomes {
        failed: workloads.iter().any(has_failed),
        disagreement,
    };
    let store_place = store_place(workdir.path(), &workloads)?;
    let report = Report {
        schema: SCHEMA.to_owned(),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        started_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs())
            - begin.elapsed().as_secs(),
        duration_s: begin.elapsed().as_secs_f64(),
        notes: notes::of(&machine, source, &parent, &args.methods(), &workloads),
        machine,
        seed: args.seed,
        quick: args.quick,
        store_place,
        bars: if source.is_own() {
            bars::of(&workloads)
        } else {
            Vec::new()
        },
        papers: if source.is_own() {
            papers::of(&workloads)
        } else {
            Vec::new()
        },
        workloads,
    };
    Ok((report, outcomes))
}

/// Measures all groups one after the other. Also returns the first difference between checksums.
fn groups(
    args: &Args,
    source: Source,
    (workdir, launcher): (&Path, &Launcher),
    progress: &mut Progress,
    show: &mut dyn FnMut(&Progress, &WorkloadReport),
) -> Result<(Vec<WorkloadReport>, Option<String>)> {
    let mut workloads = Vec::new();
    let mut disagreement = None;
    for (number, group) in plan::groups(args)?.into_iter().enumerate() {
        let directory = workdir.join(number.to_string());
        progress.step(&format!("{}: models", group.name));
        let workload = workload::build(source, &group, &directory, args.seed)?;
        let settings = plan::settings(args, group.kind)?;
        let mut bench = Bench {
            launcher,
            workdir,
            workload: &workload,
            copies: &mut Copies::new(directory.join("copies")),
            settings: &settings,
            progress: &mut *progress,
        };
        let (report, wrong) = measure(&mut bench)?;
        disagreement = disagreement.or(wrong.map(|wrong| format!("{}: {wrong}", report.name)));
        show(progress, &report);
        workloads.push(report);
        // The user's models stay; only the files of this run are removed.
        crate::system::disk::remove_tree(&directory)?;
    }
    Ok((workloads, disagreement))
}

/// Measures one group with all methods. Also returns the first difference between checksums.
fn measure(bench: &mut Bench<'_>) -> Result<(WorkloadReport, Option<String>)> {
    let workload: &Workload = bench.workload;
    let idle_worker_bytes =
        idle::worker_bytes(bench.launcher, bench.settings.most(), bench.workdir)?;
    let mut methods = Vec::new();
    for &method in &bench.settings.methods {
        bench
            .progress
            .step(&format!("{}: {}", workload.name, method.name()));
        methods.push(group::measure(bench, method)?);
    }
    let disagreement = agreement::disagreement(&methods, workload.patterns.len());
    bench
        .progress
        .step(&format!("{}: inference side by side", workload.name));
    let inference = inference::compare(bench)?;
    let mut density = budget::empty(bench);
    if let Some(density) = &mut density {
        for &method in &bench.settings.methods {
            bench.progress.step(&format!(
                "{}: {} under a limit",
                workload.name,
                method.name()
            ));
            density
                .methods
                .push(budget::count(bench, method, density.budget_bytes)?);
        }
    }
    let report = WorkloadReport {
        name: workload.name.clone(),
        description: workload.description.clone(),
        models: workload.files.clone(),
        patterns: workload.patterns.clone(),
        distinct_bytes: workload.distinct_bytes,
        sharing: workload.sharing.clone(),
        idle_worker_bytes,
        methods,
        inference,
        density,
        checksums_agree: disagreement.is_none(),
    };
    Ok((report, disagreement))
}

fn has_failed(workload: &WorkloadReport) -> bool {
    let groups = workload.methods.iter().map(|method| &method.outcome);
    let density = workload
        .density
        .iter()
        .flat_map(|density| &density.methods)
        .map(|entry| &entry.outcome);
    groups
        .chain(density)
        .any(|outcome| matches!(outcome, Outcome::Failed { .. }))
}

fn source(args: &Args, machine: &Machine) -> Source {
    let available = machine.memory_available_bytes;
    match args.preset {
        Some(Preset::Table4) => {
            Source::Table4(args.scale.unwrap_or_else(|| table4_scale(available)))
        }
        None if args.model.is_empty() && args.base.is_none() => {
            Source::Families(Sizing::for_machine(available, args.quick))
        }
        None => Source::Given,
    }
}

/// The largest round factor with which two private copies of all models fit in an eighth of the
/// memory.
fn table4_scale(available: u64) -> f64 {
    let all: u64 = table4::SIZES.iter().map(|(_, size)| size * 2_000_000).sum();
    let fitting = available as f64 / 8.0 / all as f64;
    [1.0, 0.5, 0.25, 0.1, 0.05, 0.025]
        .into_iter()
        .find(|&scale| scale <= fitting)
        .unwrap_or(0.01)
}

fn say_source(progress: &Progress, source: Source) {
    match source {
        Source::Given => {}
        Source::Families(sizing) if sizing.quick => {
            progress.say("synthetic models, tiny: a smoke run");
        }
        Source::Families(sizing) => {
            progress.say(&format!(
                "synthetic models of at most {}",
                units::bytes(sizing.model_bytes)
            ));
        }
        Source::Table4(scale) => {
            progress.say(&format!("models of Table 4, {scale} times their size"));
        }
    }
}

fn store_place(workdir: &Path, workloads: &[WorkloadReport]) -> Result<String> {
    let used = workloads.iter().flat_map(|workload| &workload.methods);
    if !used
        .into_iter()
        .any(|report| report.method.uses_store() && report.outcome == Outcome::Measured)
    {
        return Ok(String::new());
    }
    Ok(StorePlace::create(workdir, units::MIB)?
        .description()
        .to_owned())
}
