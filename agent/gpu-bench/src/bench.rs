//! What every measure finds prepared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tetris_gpu_mirror::memory::DeviceInfo;
use tetris_store_layout::Store;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::Model;
use crate::process::{Launcher, Process};
use crate::report::Settings;
use crate::role::serve::{ServeJob, Usage};
use crate::role::{Job, Order};

/// What every measure finds prepared: a model in a store, an open device, and the means to start processes.
#[derive(Debug)]
pub struct Bench<D: Backend> {
    /// The device, opened in this process.
    pub device: Arc<D>,
    /// What it is.
    pub info: DeviceInfo,
    /// How processes open it.
    pub choice: DeviceChoice,
    /// The store.
    pub store: Arc<Store>,
    /// The model, which is in the store.
    pub model: Model,
    /// A directory on a tmpfs that is removed at the end. The store is in it.
    pub folder: PathBuf,
    /// What was asked for.
    pub settings: Settings,
    /// The Python interpreter.
    pub python: PathBuf,
    pub(crate) launcher: Launcher,
}

/// A server of the mirror in a process of its own.
#[derive(Debug)]
pub struct Serving {
    process: Process,
    /// Where clients connect.
    pub socket: PathBuf,
}

/// Device memory that is enough for a model of `bytes`: places are rounded up, and every chunk to a granule.
pub fn capacity_for(bytes: u64, chunk_bytes: u64) -> u64 {
    bytes + bytes / 16 + chunk_bytes
}

impl<D: Backend> Bench<D> {
    /// Starts a process that does `job`, and ends when it is dropped.
    pub fn start(&self, job: Job) -> Result<Process, BenchError> {
        let device = self.choice;
        let parent = std::process::id();
        self.launcher.start(&Order {
            parent,
            device,
            job,
        })
    }

    /// Starts a server that takes `capacity_bytes` of the device, and waits until it listens. Its device is empty.
    pub fn serve(&self, capacity_bytes: u64) -> Result<Serving, BenchError> {
        let socket = self.folder.join("gpu");
        let job = ServeJob {
            store: Path::to_owned(self.store.root()),
            socket: socket.clone(),
            capacity_bytes,
            chunk_bytes: self.settings.chunk_bytes,
            group_bytes: self.settings.group_bytes,
        };
        let mut process = self.start(Job::Serve(job))?;
        process.hear::<()>()?;
        Ok(Serving { process, socket })
    }

    /// Says on standard error what is being done.
    pub fn progress(&self, what: &str) {
        crate::run::say(what);
    }
}

impl Serving {
    /// The process's id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// What the server holds and has done.
    pub fn usage(&mut self) -> Result<Usage, BenchError> {
        self.process.go_on()?;
        self.process.hear()
    }

    /// Ends the server, and waits for that.
    pub fn end(self) -> Result<(), BenchError> {
        self.process.end()
    }
}
