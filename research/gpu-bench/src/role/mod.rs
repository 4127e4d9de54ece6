//! Roles: the code that the processes of a measure run.
//!
//! To add a role, add a variant to [`Job`], an arm to `run_on`, and a module here.

mod adapter;
mod janitor;

pub mod attach;
pub mod function;
pub mod hold;
pub mod overlap;
pub mod peak;
pub mod serve;
pub mod transfers;
pub mod turns;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_device::host::HostDevice;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::process::{self, Launcher, Parent};

pub(crate) use janitor::Janitor;

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
    /// Copies from pinned memory as fast as the device does.
    Peak(peak::PeakJob),
    /// Computes products with a model while it arrives.
    Overlap(overlap::OverlapJob),
    /// Runs a function of a family.
    Function(function::FunctionJob),
}

impl Job {
    /// Its name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Janitor { .. } => janitor::NAME,
            Self::Serve(_) => "server",
            Self::Turns(_) => "client",
            Self::Attach(_) => "attach",
            Self::Hold(_) => "hold",
            Self::Transfers(_) => "transfers",
            Self::Peak(_) => "peak",
            Self::Overlap(_) => "overlap",
            Self::Function(_) => "function",
        }
    }
}

impl Janitor {
    /// Creates a directory in `place`, and starts its janitor.
    pub fn of(launcher: &Launcher, place: &Path) -> Result<Self, BenchError> {
        Self::start(launcher, place, |folder| Order {
            parent: std::process::id(),
            device: DeviceChoice::Simulated { bytes: 0 },
            job: Job::Janitor { folder },
        })
    }
}

/// Executes the order on standard input. Sends an error on standard output.
pub(crate) fn serve() -> Result<(), BenchError> {
    let Some(order) = process::order::<Order>()? else {
        return Ok(());
    };
    let mut parent = Parent::default();
    if let Job::Janitor { folder } = &order.job {
        return janitor::clean(folder, &mut parent);
    }
    if !process::end_with(order.parent)? {
        return Ok(());
    }
    let done = match order.device {
        DeviceChoice::Cuda(_) => run_on::<VmmDevice>(order, &mut parent),
        DeviceChoice::Simulated { .. } => run_on::<HostDevice>(order, &mut parent),
    };
    done.or_else(|error| process::tell_error(&error))
}

fn run_on<D: Backend>(order: Order, parent: &mut Parent) -> Result<(), BenchError> {
    let device = order.device;
    match order.job {
        // The janitor has no device: see `serve`.
        Job::Janitor { .. } => Ok(()),
        Job::Serve(job) => serve::run::<D>(device, &job, parent),
        Job::Turns(job) => turns::run::<D>(device, &job, parent),
        Job::Attach(job) => attach::run::<D>(device, &job, parent),
        Job::Hold(job) => hold::run::<D>(device, &job, parent),
        Job::Transfers(job) => transfers::run::<D>(device, &job, parent),
        Job::Peak(job) => peak::run::<D>(device, &job, parent),
        Job::Overlap(job) => overlap::run::<D>(device, &job, parent),
        Job::Function(job) => function::run::<D>(device, &job, parent),
    }
}
