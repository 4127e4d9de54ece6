//! The process that computes products during a load.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tetris_gpu_client::{Client, Wanted};
use tetris_store_layout::Store;

use super::turns::attach;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;
use crate::products::{Pass, Weights, matrices};
use crate::timeout::LONG;

/// Parameters of that process.
#[derive(Debug, Serialize, Deserialize)]
pub struct OverlapJob {
    /// The store, for checking the results.
    pub store: PathBuf,
    /// The server.
    pub socket: PathBuf,
    /// The model of the products.
    pub measured: BenchModel,
    /// The model that takes its room in between.
    pub other: BenchModel,
}

/// Times in seconds since the request for the model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Times {
    /// Arrival of the whole model. In a pass that does not wait for it, its time after the pass.
    pub arrived_s: f64,
    /// End of the first product.
    pub first_s: f64,
    /// End of the last product.
    pub last_s: f64,
}

/// Times of each way of waiting.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Round {
    /// The server copies the model, and each product waits for its matrix.
    pub overlapped: Times,
    /// The server copies the model, and all products wait for the whole model.
    pub loaded: Times,
    /// The model is on the device.
    pub resident: Times,
}

/// Event that a pass waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    ForEach,
    ForAll,
}

/// State that all rounds share.
struct Consumer<'a, D: Backend> {
    device: Arc<D>,
    store: Store,
    job: &'a OverlapJob,
    pass: Pass<D>,
    passes: u64,
}

/// Runs rounds until the parent ends this process.
pub fn run<D: Backend>(
    choice: DeviceChoice,
    job: &OverlapJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(choice)?);
    let mut consumer = Consumer {
        pass: Pass::new(Arc::clone(&device), matrices(&job.measured))?,
        store: Store::open(&job.store)?,
        device,
        job,
        passes: 0,
    };
    parent.tell(&())?;
    let mut each_first = true;
    while parent.wait() {
        parent.tell(&consumer.round(each_first)?)?;
        each_first = !each_first;
    }
    Ok(())
}

impl<D: Backend> Consumer<'_, D> {
    fn round(&mut self, each_first: bool) -> Result<Round, BenchError> {
        let (overlapped, loaded, resident);
        if each_first {
            overlapped = self.copied(Wait::ForEach)?;
            loaded = self.copied(Wait::ForAll)?;
            resident = self.pass(Wait::ForAll)?;
        } else {
            loaded = self.copied(Wait::ForAll)?;
            overlapped = self.copied(Wait::ForEach)?;
            resident = self.pass(Wait::ForAll)?;
        }
        Ok(Round {
            overlapped,
            loaded,
            resident,
        })
    }

    /// Runs a pass over the model after the other model has taken its room.
    fn copied(&mut self, wait: Wait) -> Result<Times, BenchError> {
        let (other, _) = attach(&self.device, &self.job.socket, &self.job.other)?;
        other.release()?;
        self.pass(wait)
    }

    /// Runs a pass from the request for the model to the last result. Checks the results
    /// afterwards.
    fn pass(&mut self, wait: Wait) -> Result<Times, BenchError> {
        self.passes += 1;
        self.pass.renew(self.passes)?;
        let objects = self.job.measured.tensors.len() as u32;
        let wanted = Wanted {
            // The products use the objects in the order of the file.
            order: (0..objects).collect(),
            wait: LONG,
            ..Wanted::new(self.job.measured.wanted())
        };
        let start = Instant::now();
        let client = Client::connect(&self.job.socket, D::KIND, LONG)?;
        let acquired = client.acquire(Arc::clone(&self.device), &wanted, &mut |_| {})?;
        if wait == Wait::ForAll {
            acquired.wait_all(LONG)?;
        }
        let waited = start.elapsed();
        let weights = Weights::Shared(acquired);
        self.pass.first(&weights)?;
        let first = start.elapsed();
        self.pass.rest(&weights)?;
        let last = start.elapsed();
        weights.wait_all()?;
        let arrived = match wait {
            Wait::ForAll => waited,
            Wait::ForEach => start.elapsed(),
        };
        self.pass.check(&self.store)?;
        weights.release()?;
        Ok(Times {
            arrived_s: arrived.as_secs_f64(),
            first_s: first.as_secs_f64(),
            last_s: last.as_secs_f64(),
        })
    }
}
