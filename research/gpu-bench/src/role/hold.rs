//! A process with an open device, and optionally a model.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::turns::attach;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;

/// Parameters of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub struct HoldJob {
    /// The server and the model to acquire there; `None`: the process has only a context.
    pub model: Option<(PathBuf, BenchModel)>,
}

/// Holds both until the parent ends this process.
pub fn run<D: Backend>(
    device: DeviceChoice,
    job: &HoldJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(device)?);
    let attached = match &job.model {
        Some((socket, model)) => Some(attach(&device, socket, model)?.0),
        None => None,
    };
    parent.tell(&())?;
    while parent.wait() {}
    drop(attached);
    Ok(())
}
