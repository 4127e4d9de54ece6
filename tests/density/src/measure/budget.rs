//! Density: number of instances that fit under a memory limit.
//!
//! Workers enter a fresh cgroup before they load. Its limit covers every page that they bring into
//! memory: heap, page tables, pages of the store, and pages of files, which were dropped from the
//! page cache before. The kernel can reclaim file pages and read them again, so a mapped file does
//! not prove that it fits. An instance counts only if a further pass of *all* live instances takes
//! at most [`SLOWEST`](super::thrash::SLOWEST) times the pass of the first instance alone, per
//! byte.

use super::thrash::Yardstick;
use super::{Bench, unavailable};
use crate::args::Budget;
use crate::data::{CountEnd, DensityOfMethod, DensityReport, Outcome};
use crate::error::{Error, Result};
use crate::methods::Method;
use crate::process::handle::Worker;
use crate::system::cgroup::{self, Cgroup};
use crate::system::store::StorePlace;
use crate::system::{disk, memory};
use crate::units::MIB;

/// Number of instances of a reclaimable method up to which every size gets passes of all instances.
const EVERY_SIZE: usize = 8;
/// Beyond, every multiple of this gets such passes, so the count is exact to within it.
const EVERY_FEW: usize = 4;
/// Generous estimate of a worker's memory beside its weights, in bytes; part of the automatic
/// limit.
const OVERHEAD: u64 = 16 * MIB;
/// Number of private instances of the largest model that the automatic limit holds.
const AUTO: u64 = 4;

/// The limit in bytes; `None` if the figure is off.
pub fn limit(bench: &Bench<'_>) -> Option<u64> {
    let largest = (0..bench.workload.patterns.len())
        .map(|i| bench.workload.file_bytes_of(i))
        .max();
    match bench.settings.budget {
        Budget::Off => None,
        Budget::Bytes(bytes) => Some(bytes),
        Budget::Auto => Some(AUTO * (largest.unwrap_or(0) + OVERHEAD)),
    }
}

/// Creates a report with the limit and without methods.
pub fn empty(bench: &Bench<'_>) -> Option<DensityReport> {
    let budget_bytes = limit(bench)?;
    Some(DensityReport {
        budget_bytes,
        cap: bench.settings.budget_cap,
        methods: Vec::new(),
    })
}

/// Counts the instances of one method. Only an interruption is an error; other failures are part of
/// the report.
pub fn count(bench: &mut Bench<'_>, method: Method, limit: u64) -> Result<DensityOfMethod> {
    let mut report = DensityOfMethod {
        method,
        outcome: Outcome::Measured,
        fits: 0,
        at_least: false,
        ended_by: None,
        peak_bytes: None,
        alone_pass_ns: 0,
    };
    let merges = (method == Method::Ksm).then(|| {
        "merging happens after an instance has its memory, so the limit strikes as for private"
            .to_owned()
    });
    let room = (memory::available()? < limit)
        .then(|| "the machine has less memory available than the limit".to_owned());
    if let Some(reason) = unavailable(bench.launcher, method)
        .or_else(cgroup::unavailable)
        .or(merges)
        .or(room)
    {
        report.outcome = Outcome::Skipped { reason };
        return Ok(report);
    }
    let result = fill(bench, method, limit, &mut report);
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
    Ok(report)
}

fn fill(
    bench: &mut Bench<'_>,
    method: Method,
    limit: u64,
    report: &mut DensityOfMethod,
) -> Result<()> {
    let (cap, end_at_cap) = cap(bench, method);
    bench.files_for(method, cap)?;
    for instance in 0..cap {
        for file in bench.copies.files(bench.workload, method, instance) {
            disk::drop_cache(&file)?;
        }
    }
    // Dropped in the reverse order: workers, the store with its daemon, and their cgroup.
    let group = Cgroup::create(&format!("tetris-density-{}", std::process::id()), limit)?;
    let store = bench.store_for(method)?;
    if let Some(daemon) = store.as_ref().and_then(StorePlace::daemon) {
        // Memory that the daemon publishes counts like memory that workers publish themselves.
        group.add(daemon)?;
    }
    let mut workers: Vec<Worker> = Vec::new();
    let bytes: Vec<u64> = (0..cap).map(|i| bench.workload.file_bytes_of(i)).collect();
    let mut yardstick = None;
    let mut ended_by = None;
    while ended_by.is_none() && workers.len() < cap {
        bench
            .progress
            .detail(&format!("{}: {} fit so far", method.name(), report.fits));
        if let Err(error) = add(bench, method, store.as_ref(), &group, &mut workers) {
            ended_by = Some(end(error, &group)?);
            break;
        }
        if workers.iter_mut().any(Worker::has_ended) {
            ended_by = Some(killed(&group));
            break;
        }
        let yardstick = match yardstick {
            Some(yardstick) => yardstick,
            None => *yardstick.insert(Yardstick::of(&mut workers[0], bytes[0])?),
        };
        report.alone_pass_ns = yardstick.alone_ns as u64;
        if is_checked(method, workers.len(), cap) {
            match yardstick.slowdown(&mut workers, &bytes) {
                Ok(None) => report.fits = workers.len(),
                Ok(Some(ratio)) => ended_by = Some(CountEnd::Thrashing { ratio }),
                Err(error) => ended_by = Some(end(error, &group)?),
            }
        } else if !method.is_reclaimable() {
            report.fits = workers.len();
        }
    }
    report.peak_bytes = group.peak();
    let ended_by = ended_by.unwrap_or(end_at_cap);
    report.at_least = ended_by.leaves_room();
    report.ended_by = Some(ended_by);
    Ok(())
}

/// Number of instances at which counting stops, and the event that ends the count there.
fn cap(bench: &Bench<'_>, method: Method) -> (usize, CountEnd) {
    let wanted = bench.settings.budget_cap;
    // More copies than the groups needed would only fill the disk.
    let copies = bench.copies.made().max(bench.settings.most());
    if method.copies_files() && copies < wanted {
        (copies, CountEnd::Copies)
    } else {
        (wanted, CountEnd::Cap)
    }
}

fn add(
    bench: &Bench<'_>,
    method: Method,
    store: Option<&StorePlace>,
    group: &Cgroup,
    workers: &mut Vec<Worker>,
) -> Result<()> {
    let files = bench.copies.files(bench.workload, method, workers.len());
    let mut worker = bench.launcher.start(method.loader())?;
    worker.join(&group.procs())?;
    worker.load(method.loader(), &files, store.map(StorePlace::for_workers))?;
    workers.push(worker);
    Ok(())
}

/// Returns true if all instances make passes at this size: often for weights that the kernel can
/// reclaim, else only at the end.
fn is_checked(method: Method, count: usize, cap: usize) -> bool {
    let often = count <= EVERY_SIZE || count.is_multiple_of(EVERY_FEW);
    count == cap || method.is_reclaimable() && often
}

/// The event behind a worker's failure under the limit; errors unrelated to the limit stay errors.
fn end(error: Error, group: &Cgroup) -> Result<CountEnd> {
    match error {
        Error::Died { .. } if group.kills() > 0 => Ok(killed(group)),
        Error::Refused { reason, .. } => Ok(CountEnd::Refused { reason }),
        Error::Deadline { .. } => Ok(CountEnd::Deadline),
        other => Err(other),
    }
}

fn killed(group: &Cgroup) -> CountEnd {
    CountEnd::Killed {
        kills: group.kills(),
    }
}
