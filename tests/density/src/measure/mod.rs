//! Measurements: one group of live workers at a time.

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

/// Methods, sizes and limits of the measurements.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Methods, in the order of measurement.
    pub methods: Vec<Method>,
    /// Numbers of instances at which the group is measured, ascending.
    pub counts: Vec<usize>,
    /// Number of passes per method in the comparison of inference times.
    pub passes: u32,
    /// Maximum number of instances for samepage merging.
    pub ksm_instances: usize,
    /// Timeout for merging one group.
    pub ksm_limit: Duration,
    /// Memory limit for the density figure.
    pub budget: Budget,
    /// Number of instances at which counting under the limit stops.
    pub budget_cap: usize,
}

impl Settings {
    /// Size of the largest group.
    pub fn most(&self) -> usize {
        self.counts.last().copied().unwrap_or(1)
    }
}

/// Environment of the measurements of one workload.
pub struct Bench<'a> {
    /// Starts workers.
    pub launcher: &'a Launcher,
    /// Directory for mounts.
    pub workdir: &'a Path,
    /// The models that the instances load.
    pub workload: &'a Workload,
    /// The instances' own copies of the files.
    pub copies: &'a mut Copies,
    /// Settings of the measurements.
    pub settings: &'a Settings,
    /// Messages for the user.
    pub progress: &'a mut Progress,
}

impl Bench<'_> {
    /// Creates an empty store for a method that uses one.
    fn store_for(&self, method: Method) -> Result<Option<StorePlace>> {
        if !method.uses_store() {
            return Ok(None);
        }
        // Cast weights lie beside those of the file until the store needs the room.
        let cast = u64::from(method.casts()) * self.workload.stored_bytes() / 2;
        let stored = self.workload.stored_bytes() + cast;
        let mut place = StorePlace::create(self.workdir, stored + stored / 4 + 64 * MIB)?;
        methods::tetris::create_store(place.path())?;
        if method == Method::TetrisBrokered {
            place.serve(&self.launcher.program)?;
        }
        Ok(Some(place))
    }

    /// Creates the files that a method needs for its instances.
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

/// The reason a method cannot be measured here; `None` if it can.
pub fn unavailable(launcher: &Launcher, method: Method) -> Option<String> {
    match method {
        Method::Ksm => ksm::unavailable(),
        Method::TetrisBrokered => broker::unavailable(),
        _ => launcher.python.unavailable(method.loader()),
    }
}
