//! A client that requests one model after the other, each at the parent's request.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tetris_gpu_client::{Acquired, Client, Wanted};

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;
use crate::timeout::LONG;

/// Parameters of such a client.
#[derive(Debug, Serialize, Deserialize)]
pub struct TurnsJob {
    /// The server.
    pub socket: PathBuf,
    /// The models that it requests, in turn.
    pub models: Vec<BenchModel>,
}

/// Times of a turn, in seconds since its start.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Turn {
    /// Connection to the server.
    pub connected_s: f64,
    /// Mapping of all chunks.
    pub mapped_s: f64,
    /// Arrival of the whole model.
    pub arrived_s: f64,
    /// Length of the mapped chunks, in bytes.
    pub mapped_bytes: u64,
}

/// Acquires a whole model, and measures the times.
pub fn attach<D: Backend>(
    device: &Arc<D>,
    socket: &std::path::Path,
    model: &BenchModel,
) -> Result<(Acquired<D>, Turn), BenchError> {
    let wanted = Wanted {
        wait: LONG,
        ..Wanted::new(model.wanted())
    };
    let start = Instant::now();
    let client = Client::connect(socket, D::KIND, LONG)?;
    let connected = start.elapsed();
    let acquired = client.acquire(Arc::clone(device), &wanted, &mut |_| {})?;
    let mapped = start.elapsed();
    acquired.wait_all(LONG)?;
    let arrived = start.elapsed();
    let turn = Turn {
        connected_s: connected.as_secs_f64(),
        mapped_s: mapped.as_secs_f64(),
        arrived_s: arrived.as_secs_f64(),
        mapped_bytes: acquired.mapped_bytes(),
    };
    Ok((acquired, turn))
}

/// Takes turns until the parent ends this process.
pub fn run<D: Backend>(
    device: DeviceChoice,
    job: &TurnsJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(device)?);
    parent.tell(&())?;
    for model in job.models.iter().cycle() {
        if !parent.wait() {
            break;
        }
        let (held, turn) = attach(&device, &job.socket, model)?;
        held.release()?;
        parent.tell(&turn)?;
    }
    Ok(())
}
