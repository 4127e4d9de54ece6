//! Measures, their names and needs.

mod anchors;
mod attach;
mod eviction;
mod load_file;
mod loader;
mod processes;
mod transfers;

use clap::ValueEnum;

pub use anchors::Anchors;
pub use attach::Attach;
pub use eviction::Eviction;
pub use load_file::LoadFile;
pub use processes::Processes;
pub use transfers::Transfers;

use crate::BenchError;
use crate::backend::Backend;
use crate::bench::Bench;
use crate::report::{Findings, Settings};

/// Names of the measures, in the order of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Attach of a model that another process holds
    Attach,
    /// Copies from the store to the device
    Transfers,
    /// The mirror's load against safetensors.torch.load_file
    LoadFile,
    /// Plain copies from pinned memory and other loaders, without the mirror
    Anchors,
    /// Device memory of several processes with one model
    Processes,
    /// Eviction of a model for another one, and its return
    Eviction,
    /// Products with a model that is still being copied
    Overlap,
    /// Device memory of functions that share a base
    Family,
}

/// Memory that a measure needs at a time, in bytes, besides the model in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Device memory.
    pub device_bytes: u64,
    /// Host memory.
    pub host_bytes: u64,
    /// Files in the run's directory.
    pub file_bytes: u64,
}

/// A measure on a device.
pub trait Measure<D: Backend> {
    /// Description of the measure, in a few words.
    fn about(&self) -> &'static str;

    /// Memory for a model of `model_bytes`.
    fn needs(&self, model_bytes: u64, settings: &Settings) -> Needs;

    /// True if the pages of the store's files change the result: the measure is repeated for each
    /// store.
    fn depends_on_pages(&self) -> bool {
        false
    }

    /// The reason this measure cannot be taken here; `None` if it can.
    fn skip(&self, _bench: &Bench<D>) -> Option<String> {
        None
    }

    /// Takes the measure.
    fn take(&self, bench: &Bench<D>) -> Result<Findings, BenchError>;
}

impl Name {
    /// The name, as on the command line.
    pub fn text(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
