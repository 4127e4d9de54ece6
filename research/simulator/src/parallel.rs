//! Work on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::SimulationError;

/// Runs `work` for each task on all cores. Results are in no order; the first error ends it.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    tasks: &[T],
    progress: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(&T) -> Option<Result<R, SimulationError>> + Sync,
) -> Result<Vec<R>, SimulationError> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    let worker = || {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(result) = work(task) else {
                continue;
            };
            let failed = result.is_err();
            if let Ok(mut results) = results.lock() {
                results.push(result);
            }
            if failed {
                next.store(tasks.len(), Ordering::Relaxed);
            }
            progress(finished.fetch_add(1, Ordering::Relaxed) + 1, tasks.len());
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner();
    let results = results.unwrap_or_else(std::sync::PoisonError::into_inner);
    results.into_iter().collect()
}
