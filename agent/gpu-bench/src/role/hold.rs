//! A process that has a device open, and a model if it is to.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::turns::attach;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::Model;
use crate::process::Parent;

/// What such a process needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub struct HoldJob {
    /// The server and what is asked for there; without it the process has a context and nothing else.
    pub model: Option<(PathBuf, Model)>,
}

/// Holds until the parent has no use for it.
pub fn run<D: Backend>(
    device: DeviceChoice,
    job: &HoldJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(device)?);
    let held = match &job.model {
        Some((socket, model)) => Some(attach(&device, socket, model)?.0),
        None => None,
    };
    parent.tell(&())?;
    while parent.wait() {}
    drop(held);
    Ok(())
}
