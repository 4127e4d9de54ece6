//! Taking the figures: one group of live workers at a time.

pub mod agreement;
pub mod budget;
pub mod group;
pub mod idle;
pub mod inference;
pub mod thrash;

use std::path::Path;
use std::time::Duration;

use crate::args::Budget;
use crate::error::Result;
use crate::methods::{self, Method};
use crate::process::handle::Launcher;
use crate::report::progress::Progress;
use crate::system::store::StorePlace;
use crate::system::{broker, ksm};
use crate::units::MIB;
use crate::workload::Workload;
use crate::workload::copies::Copies;

/// What is measured and how far.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Methods, in the order in which they run.
    pub methods: Vec<Method>,
    /// Numbers of instances at which the group is read, ascending.
    pub counts: Vec<usize>,
    /// Passes per method in the comparison of inference times.
    pub passes: u32,
    /// Most instances for samepage merging.
    pub ksm_instances: usize,
    /// Longest time to merge one group.
    pub ksm_limit: Duration,
    /// Memory limit for the density figure.
    pub budget: Budget,
    /// Where counting under the limit stops.
    pub budget_cap: usize,
}

impl Settings {
    /// The largest group.
    pub fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }
}

/// Everything a measurement of one workload needs.
pub struct Bench<'a> {
    /// Starts workers.
    pub launcher: &'a Launcher,
    /// Directory for mounts.
    pub workdir: &'a Path,
    /// What the instances load.
    pub workload: &'a Workload,
    /// Their own copies of it.
    pub copies: &'a mut Copies,
    /// How far to go.
    pub settings: &'a Settings,
    /// Whom to tell.
    pub progress: &'a mut Progress,
}

impl Bench<'_> {
    /// Makes an empty store for a method that uses one.
    fn store_for(&self, method: Method) -> Result<Option<StorePlace>> {
        if !method.uses_store() {
            return Ok(None);
        }
        let stored = self.workload.stored_bytes();
        let mut place = StorePlace::create(self.workdir, stored + stored / 4 + 64 * MIB)?;
        methods::tetris::create_store(place.path())?;
        if method == Method::TetrisBrokered {
            place.serve(&self.launcher.program)?;
        }
        Ok(Some(place))
    }

    /// Makes the files that a method needs for its instances.
    fn files_for(&mut self, method: Method, instances: usize) -> Result<()> {
        if method.copies_files() {
            self.progress.detail("copying the model files");
            self.copies.prepare(self.workload, instances)?;
        }
        if method == Method::TetrisSidecar {
            self.copies.add_sidecars(self.workload)?;
        }
        Ok(())
    }
}

/// Why a method cannot be measured here; `None` when it can.
pub fn unavailable(launcher: &Launcher, method: Method) -> Option<String> {
    match method {
        Method::Ksm => ksm::unavailable(),
        Method::TetrisBrokered => broker::unavailable(),
        _ => launcher.python.unavailable(method.loader()),
    }
}
