//! Memory of a process beside the weights.

use std::path::Path;

use crate::error::Result;
use crate::measure::Bench;
use crate::methods::{Loader, Method};
use crate::process::handle::{Launcher, Worker};
use crate::synthetic::{self, table4};
use crate::system::memory::ProcessMemory;
use crate::system::store::StorePlace;

/// Length of the smallest model, in bytes: the program's pages and buffers are in use with it.
const ALMOST_NOTHING: u64 = 4096;

/// Mean memory (PSS and page tables) of `count` workers in bytes, after loading a model of one page
/// and a pass over it.
pub fn worker_bytes(launcher: &Launcher, count: usize, directory: &Path) -> Result<u64> {
    of_loader(launcher, Loader::Heap, count, (directory, None))
}

/// Mean memory of the interpreters of a method, measured like [`worker_bytes`].
pub fn interpreter_bytes(bench: &Bench<'_>, method: Method, count: usize) -> Result<u64> {
    let store = bench.store_for(method)?;
    let place = (bench.workdir, store.as_ref());
    of_loader(bench.launcher, method.loader(), count, place)
}

fn of_loader(
    launcher: &Launcher,
    loader: Loader,
    count: usize,
    (directory, store): (&Path, Option<&StorePlace>),
) -> Result<u64> {
    let file = [directory.join("almost-nothing.safetensors")];
    synthetic::write(
        &table4::sized("almost-nothing", ALMOST_NOTHING),
        0,
        &file[0],
    )?;
    let mut workers = Vec::new();
    for _ in 0..count {
        let mut worker = launcher.start(loader)?;
        worker.load(loader, &file, store.map(StorePlace::for_workers))?;
        workers.push(worker);
    }
    let memory = ProcessMemory::of_all(workers.iter().map(Worker::pid))?;
    Ok((memory.pss + memory.page_tables) / count.max(1) as u64)
}
