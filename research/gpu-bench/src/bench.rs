//! Environment that all measures share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tetris_gpu_device::DeviceInfo;
use tetris_store_layout::Store;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::{Launcher, Process};
use crate::progress::say;
use crate::report::Settings;
use crate::role::serve::{ServeJob, Usage};
use crate::role::{Job, Order};

/// Environment that all measures share: a model in a store, an open device, and a launcher of
/// processes.
#[derive(Debug)]
pub struct Bench<D: Backend> {
    /// The device, opened in this process.
    pub device: Arc<D>,
    /// Its description.
    pub info: DeviceInfo,
    /// The device for the processes.
    pub choice: DeviceChoice,
    /// The store.
    pub store: Arc<Store>,
    /// The model, whose objects are in the store.
    pub model: BenchModel,
    /// A directory on a tmpfs, removed at the end. It contains the store.
    pub folder: PathBuf,
    /// Settings of the run.
    pub settings: Settings,
    /// The Python interpreter.
    pub python: PathBuf,
    pub(crate) launcher: Launcher,
}

/// A server of the mirror in another process.
#[derive(Debug)]
pub struct Serving {
    process: Process,
    /// The server's socket.
    pub socket: PathBuf,
}

/// Number of bytes of device memory that suffice for a model of `bytes`: positions are aligned, and
/// every chunk is rounded up to a granule.
pub fn capacity_for(bytes: u64, chunk_bytes: u64) -> u64 {
    bytes + bytes / 16 + chunk_bytes
}

impl<D: Backend> Bench<D> {
    /// Starts a process that executes `job`. It ends when the value is dropped.
    pub fn start(&self, job: Job) -> Result<Process, BenchError> {
        let device = self.choice;
        let parent = std::process::id();
        let order = Order {
            parent,
            device,
            job,
        };
        self.launcher.start(order.job.name(), &order)
    }

    /// Starts a server with a limit of `capacity_bytes` and an empty device, and waits until it
    /// listens.
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

    /// Prints the current step to standard error.
    pub fn progress(&self, step: &str) {
        say(step);
    }
}

impl Serving {
    /// The process's id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Queries the server's usage.
    pub fn usage(&mut self) -> Result<Usage, BenchError> {
        self.process.go_on()?;
        self.process.hear()
    }

    /// Stops the server, and waits for its end.
    pub fn end(self) -> Result<(), BenchError> {
        self.process.end()
    }
}
