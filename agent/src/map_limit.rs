//! What to do when the process may not map any more (`vm.max_map_count`).
//!
//! At the limit even the allocator fails, and a failing allocator ends the process. So whoever meets
//! the limit gives back mappings of this load, and nothing more is mapped by it: what is missing goes
//! to private memory, in one piece.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use tetris_store_layout::{MapError, PublishError};

/// Mappings that are given back at the limit: for the private buffer, the allocator's arenas, and what
/// the program does next.
pub(crate) const GIVE_BACK: usize = 64;

/// Whether a load has met the limit.
#[derive(Debug, Default)]
pub(crate) struct MapLimit {
    met: AtomicBool,
}

impl MapLimit {
    /// True when nothing more is to be mapped.
    pub(crate) fn is_met(&self) -> bool {
        self.met.load(Ordering::Relaxed)
    }

    /// Why things are private, if the limit is met.
    pub(crate) fn reason(&self) -> Option<String> {
        let reason = "this process has as many mappings as it may have (vm.max_map_count)";
        self.is_met().then(|| reason.to_owned())
    }

    /// Notes an error of mapping; `true` for the one call that meets the limit first.
    pub(crate) fn meet(&self, error: &MapError) -> bool {
        let at_limit = matches!(error, MapError::Io(error)
            if error.source.raw_os_error() == Some(libc::ENOMEM));
        at_limit && !self.met.swap(true, Ordering::Relaxed)
    }

    /// As [`MapLimit::meet`], for an error of publishing.
    pub(crate) fn meet_publishing(&self, error: &PublishError) -> bool {
        matches!(error, PublishError::Map(error) if self.meet(error))
    }
}
