//! Stores of a run, and their pages.

use std::path::Path;

use serde::Serialize;
use tetris_store_layout::Store;

/// A store of the run.
#[derive(Debug, Clone, Serialize)]
pub struct StoreReport {
    /// Its directory, as on the command line.
    pub directory: String,
    /// Option `huge` of its tmpfs, if it has one.
    pub huge: Option<String>,
    /// Pages of the model's objects, or of a new file if no object is long enough to tell, in
    /// words; `None` if the kernel does not tell.
    pub pages: Option<String>,
    /// Number of bytes whose pages the run looked at.
    pub looked_at_bytes: u64,
    /// Number of these bytes mapped by pages of 2 MiB.
    pub large_bytes: u64,
}

impl StoreReport {
    /// Describes a store after its model was written.
    pub(crate) fn of(store: &Store, directory: &Path) -> Self {
        let objects = store.objects().ok();
        let pages = objects.and_then(|all| store.object_pages(&all.objects).ok().flatten());
        let pages = pages.or_else(|| store.probe_pages().ok().flatten());
        Self {
            directory: directory.display().to_string(),
            huge: store.huge_option(),
            pages: pages.as_ref().map(ToString::to_string),
            looked_at_bytes: pages.as_ref().map_or(0, |pages| pages.looked_at),
            large_bytes: pages.as_ref().map_or(0, |pages| pages.large),
        }
    }
}
