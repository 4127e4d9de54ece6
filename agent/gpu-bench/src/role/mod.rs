//! Roles: the code that the processes of a measure run.
//!
//! To add a role, add a variant to [`Job`] and an arm to `run`. Its code belongs in a module beside
//! the measure's.

pub mod attach;
pub mod hold;
pub mod serve;
pub mod transfers;
pub mod turns;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tetris_gpu_mirror::memory::cuda::VmmDevice;
use tetris_gpu_mirror::memory::host::HostDevice;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::family::function;
use crate::overlap::consumer as overlap;
use crate::process::Parent;

/// An order for a child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Process id of the parent.
    pub parent: u32,
    /// The device to open.
    pub device: DeviceChoice,
    /// The job.
    pub job: Job,
}

/// A job of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Removes a directory when the parent has ended.
    Janitor {
        /// The directory.
        folder: PathBuf,
    },
    /// Serves a store's clients.
    Serve(serve::ServeJob),
    /// Requests one model after the other.
    Turns(turns::TurnsJob),
    /// Attaches a model, and copies as many bytes.
    Attach(attach::AttachJob),
    /// Holds a context, and optionally a model.
    Hold(hold::HoldJob),
    /// Copies to the device in several ways.
    Transfers(transfers::TransfersJob),
    /// Computes products with a model while it arrives.
    Overlap(overlap::OverlapJob),
    /// Runs a function of a family.
    Function(function::FunctionJob),
}

impl Job {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Janitor { .. } => "janitor",
            Self::Serve(_) => "server",
            Self::Turns(_) => "client",
            Self::Attach(_) => "attach",
            Self::Hold(_) => "hold",
            Self::Transfers(_) => "transfers",
            Self::Overlap(_) => "overlap",
            Self::Function(_) => "function",
        }
    }
}

/// Executes an order on its device.
pub(crate) fn run(order: Order, parent: &mut Parent) -> Result<(), BenchError> {
    match order.device {
        DeviceChoice::Cuda(_) => run_on::<VmmDevice>(order, parent),
        DeviceChoice::Simulated { .. } => run_on::<HostDevice>(order, parent),
    }
}

fn run_on<D: Backend>(order: Order, parent: &mut Parent) -> Result<(), BenchError> {
    let device = order.device;
    match order.job {
        // The janitor has no device: see `process::serve`.
        Job::Janitor { .. } => Ok(()),
        Job::Serve(job) => serve::run::<D>(device, &job, parent),
        Job::Turns(job) => turns::run::<D>(device, &job, parent),
        Job::Attach(job) => attach::run::<D>(device, &job, parent),
        Job::Hold(job) => hold::run::<D>(device, &job, parent),
        Job::Transfers(job) => transfers::run::<D>(device, &job, parent),
        Job::Overlap(job) => overlap::run::<D>(device, &job, parent),
        Job::Function(job) => function::run::<D>(device, &job, parent),
    }
}
