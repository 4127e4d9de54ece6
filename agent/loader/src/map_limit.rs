//! The limit on the mappings of a process (`vm.max_map_count`).
//!
//! At the limit even the allocator fails, and a failing allocator ends the process. So the thread
//! that meets the limit gives back mappings of this load, and the load maps nothing more: the rest
//! goes to private memory, in one piece.

use std::sync::atomic::{AtomicBool, Ordering};

use tetris_store_layout::{MapError, PublishError};

use crate::cause::is_map_limit;

/// Number of mappings that are given back at the limit: for the private buffer, the allocator's
/// arenas, and the program's next steps.
pub(crate) const GIVE_BACK: usize = 64;

/// The limit on mappings, as one load has met it or not.
#[derive(Debug, Default)]
pub struct MapLimit {
    met: AtomicBool,
}

impl MapLimit {
    /// Returns true when the load must map nothing more.
    pub fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// The reason for private memory, if the limit is met.
    pub fn reason(&self) -> Option<String> {
        let reason = "this process has as many mappings as it may have (vm.max_map_count)";
        self.is_met().then(|| reason.to_owned())
    }

    /// Notes an error of mapping; true for the one call that meets the limit first.
    pub(crate) fn meet(&self, error: &MapError) -> bool {
        let at_limit = matches!(error, MapError::Io(error) if is_map_limit(error));
        at_limit && !self.met.swap(true, Ordering::Relaxed)
    }

    /// Notes an error of publishing, like [`MapLimit::meet`].
    pub(crate) fn meet_publishing(&self, error: &PublishError) -> bool {
        matches!(error, PublishError::Map(error) if self.meet(error))
    }
}
