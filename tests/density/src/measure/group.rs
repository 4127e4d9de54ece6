//! A growing group: starts instances, and reads the memory of all at each requested size.

use super::{Bench, idle, unavailable};
use crate::data::{GroupPoint, MethodReport, Outcome, Start, StartSummary};
use crate::error::{Error, Result};
use crate::methods::Method;
use crate::process::handle::Worker;
use crate::system::ksm::{Merging, Turn};
use crate::system::memory::{self, ProcessMemory};
use crate::system::store::StorePlace;
use crate::system::warm;
use crate::units;
use tetris_test_support::stats::Summary;

/// Share of the available memory that a group may use.
const PART: f64 = 0.75;
/// Number of passes of the first and of the last instance of the full group.
const PASSES: u32 = 3;

/// Measures one method. Only an interruption is an error; a failure of the method is part of the
/// report.
pub fn measure(bench: &mut Bench<'_>, method: Method) -> Result<MethodReport> {
    let mut report = MethodReport {
        method,
        description: method.description().to_owned(),
        outcome: Outcome::Measured,
        group: Vec::new(),
        limited: None,
        marginal_bytes: None,
        interpreter_bytes: None,
        starts: Vec::new(),
        repeated: None,
        first: None,
        pass_ns: Vec::new(),
        merging: Vec::new(),
    };
    if let Some(reason) = unavailable(bench.launcher, method) {
        report.outcome = Outcome::Skipped { reason };
        return Ok(report);
    }
    let result = grow(bench, method, &mut report);
    if method == Method::TetrisSidecar {
        bench.copies.remove_sidecars()?;
    }
    match result {
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        Err(error) => {
            report.outcome = Outcome::Failed {
                reason: error.chain(),
            }
        }
        Ok(()) => {}
    }
    summarize(&mut report);
    Ok(report)
}

fn grow(bench: &mut Bench<'_>, method: Method, report: &mut MethodReport) -> Result<()> {
    let counts = affordable(bench, method, report)?;
    let Some(&most) = counts.last() else {
        return Ok(());
    };
    if method.needs_python() {
        bench
            .progress
            .detail(&format!("{}: {most} interpreters alone", method.name()));
        report.interpreter_bytes = Some(idle::interpreter_bytes(bench, method, most)?);
    }
    bench.files_for(method, most)?;
    // Dropped in the reverse order: workers first, then merging, then the store.
    let store = bench.store_for(method)?;
    let turn = (method == Method::Ksm).then(Turn::take).transpose()?;
    let merging = turn.as_ref().map(Merging::start).transpose()?;
    let mut workers: Vec<Worker> = Vec::new();
    let available = memory::available()?;
    for count in counts {
        while workers.len() < count {
            bench.progress.detail(&format!(
                "{}: instance {} of {most}",
                method.name(),
                workers.len() + 1
            ));
            let start = start(bench, method, store.as_ref(), &mut workers)?;
            report.starts.push(start);
        }
        // A single instance has nothing to share.
        if let Some(merging) = merging.as_ref().filter(|_| count > 1) {
            bench
                .progress
                .detail(&format!("ksm: merging {count} instances"));
            report
                .merging
                .push(merging.settle(count, bench.settings.ksm_limit)?);
        }
        report
            .group
            .push(point(bench, store.as_ref(), &workers, available)?);
    }
    let last = workers.len() - 1;
    for worker in workers
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| [0, last].contains(i))
        .map(|(_, w)| w)
    {
        report.pass_ns.extend(worker.pass(PASSES)?.0);
    }
    Ok(())
}

fn start(
    bench: &Bench<'_>,
    method: Method,
    store: Option<&StorePlace>,
    workers: &mut Vec<Worker>,
) -> Result<Start> {
    let instance = workers.len();
    let files = bench.copies.files(bench.workload, method, instance);
    let repeat = bench.workload.is_repeat(instance);
    let mut worker = bench.launcher.start(method.loader())?;
    if method.is_private() || method.uses_store() && !repeat {
        warm::back(bench.workload.file_bytes_of(instance))?;
    }
    let times = worker.load(method.loader(), &files, store.map(StorePlace::for_workers))?;
    workers.push(worker);
    Ok(Start {
        instance,
        repeat,
        attach_ns: times.attach_ns,
        touch_ns: times.touch_ns,
        first_result_ns: times.first_result_ns,
        checksum: times.checksum,
        store: times.store,
    })
}

fn point(
    bench: &Bench<'_>,
    store: Option<&StorePlace>,
    workers: &[Worker],
    available_before: u64,
) -> Result<GroupPoint> {
    // The daemon belongs to the memory of this method.
    let daemon = store.and_then(StorePlace::daemon);
    let processes = ProcessMemory::of_all(workers.iter().map(Worker::pid).chain(daemon))?;
    let store_bytes = store.map(StorePlace::used).transpose()?.unwrap_or(0);
    let unmapped = store_bytes.saturating_sub(processes.pss_shmem);
    Ok(GroupPoint {
        instances: workers.len(),
        logical_bytes: bench.workload.logical_bytes(workers.len()),
        group_bytes: processes.pss + processes.page_tables + unmapped,
        processes,
        store_bytes,
        available_drop_bytes: available_before.cast_signed() - memory::available()?.cast_signed(),
    })
}

/// The sizes that fit this machine with a method. Notes omitted sizes in the report.
fn affordable(bench: &Bench<'_>, method: Method, report: &mut MethodReport) -> Result<Vec<usize>> {
    let room = (memory::available()? as f64 * PART) as u64;
    let mut counts = bench.settings.counts.clone();
    if method == Method::Ksm {
        let most = bench.settings.ksm_instances;
        if counts.iter().any(|&count| count > most) {
            report.limited = Some(format!(
                "at most {most} instances (--ksm-instances): merging is slow"
            ));
        }
        counts.retain(|&count| count <= most);
    }
    let needed = |count| {
        if method.shares() {
            bench.workload.stored_bytes()
        } else {
            bench.workload.file_bytes(count)
        }
    };
    if let Some(&count) = counts.iter().find(|&&count| needed(count) > room) {
        let needed = units::bytes(needed(count));
        report.limited = Some(format!(
            "{count} instances need {needed}, and {} may be used",
            units::bytes(room)
        ));
        counts.retain(|&kept| kept < count);
    }
    if counts.is_empty() {
        let reason = report
            .limited
            .clone()
            .unwrap_or_else(|| "no number of instances is left".into());
        report.outcome = Outcome::Skipped { reason };
    }
    Ok(counts)
}

fn summarize(report: &mut MethodReport) {
    if let (Some(first), Some(last)) = (report.group.first(), report.group.last())
        && last.instances > first.instances
    {
        let grown = last.group_bytes as f64 - first.group_bytes as f64;
        report.marginal_bytes = Some(grown / (last.instances - first.instances) as f64);
    }
    report.repeated = start_summary(&report.starts, true);
    report.first = start_summary(&report.starts, false);
}

fn start_summary(starts: &[Start], repeat: bool) -> Option<StartSummary> {
    let of = |value: fn(&Start) -> u64| {
        let starts = starts.iter().filter(|start| start.repeat == repeat);
        Summary::of(&starts.map(|start| value(start) as f64).collect::<Vec<_>>())
    };
    Some(StartSummary {
        attach_ns: of(|start| start.attach_ns)?,
        touch_ns: of(|start| start.touch_ns)?,
        attach_and_touch_ns: of(|start| start.attach_ns + start.touch_ns)?,
        first_result_ns: of(|start| start.first_result_ns)?,
    })
}
