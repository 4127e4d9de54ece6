//! Diagnosis of a store, of the machine, of models and of processes.
//!
//! [`diagnose`] looks, and changes nothing: it publishes no object, frees none, and reads no more of
//! a model than a load of a known file does. Each [`Check`] has a status, the found state,
//! the expected one and a remedy. [`render`] writes a diagnosis for people; its serialization is for
//! programs.
//!
//! ```
//! # let dir = tempfile::tempdir_in("/dev/shm")?;
//! # tetris_agent::Store::create(dir.path(), &Default::default())?;
//! use tetris_cli::doctor::{Status, Subjects, diagnose};
//! use tetris_agent::store_location::StoreLocation;
//!
//! let diagnosis = diagnose(&StoreLocation::named(dir.path()), &Subjects::default());
//! assert_ne!(diagnosis.status(), Status::Failure);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod machine;
mod model;
mod mounts;
mod process;
mod store;
mod text;
mod users;

use std::path::PathBuf;

use nix::sys::sysinfo::sysinfo;
use store::SeenStore;
use tetris_agent::DEFAULT_MIN_SHARED_BYTES;
use tetris_agent::store_location::StoreLocation;

pub use check::{Check, Diagnosis, FAILURES, Section, Status, WARNINGS};
pub use text::{Emphasis, render};

/// The things to diagnose beside the store and the machine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Subjects {
    /// Models: files, or directories as Hugging Face lays them out.
    pub models: Vec<PathBuf>,
    /// Identifier of a process.
    pub pid: Option<u32>,
    /// Smallest file in bytes that loads share; as in [`LoadOptions`](tetris_agent::LoadOptions).
    pub min_shared_bytes: u64,
}

impl Default for Subjects {
    fn default() -> Self {
        Self {
            models: Vec::new(),
            pid: None,
            min_shared_bytes: DEFAULT_MIN_SHARED_BYTES,
        }
    }
}

impl Subjects {
    /// Sets [`Subjects::models`].
    #[must_use]
    pub fn with_models(mut self, models: Vec<PathBuf>) -> Self {
        self.models = models;
        self
    }

    /// Sets [`Subjects::pid`].
    #[must_use]
    pub fn with_pid(mut self, pid: Option<u32>) -> Self {
        self.pid = pid;
        self
    }

    /// Sets [`Subjects::min_shared_bytes`].
    #[must_use]
    pub fn with_min_shared_bytes(mut self, min_shared_bytes: u64) -> Self {
        self.min_shared_bytes = min_shared_bytes;
        self
    }
}

/// Looks at the store at `location`, at this machine and at the subjects.
///
/// It takes as long as the daemon needs for a greeting, at most 5 s, and a moment for each model.
pub fn diagnose(location: &StoreLocation, subjects: &Subjects) -> Diagnosis {
    let seen = SeenStore::at(location);
    let mut sections = vec![store::section(location, &seen), machine::section(&seen)];
    for path in &subjects.models {
        sections.push(model::section(path, &seen, subjects.min_shared_bytes));
    }
    if let Some(pid) = subjects.pid {
        sections.push(process::section(pid, &seen));
    }
    Diagnosis { sections }
}

/// Memory of the machine in bytes, if the kernel reports it.
fn installed_memory() -> Option<u64> {
    sysinfo().ok().map(|machine| machine.ram_total())
}
