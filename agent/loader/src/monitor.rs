//! Observation of a reader from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the bytes that another thread reads of a file and the room that it takes for them, and can end its reading.
#[derive(Debug, Default)]
pub struct ReadMonitor {
    read: AtomicU64,
    staged: AtomicU64,
    cancelled: AtomicBool,
}

impl ReadMonitor {
    /// Bytes read so far; a byte read twice counts twice.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of the objects that were staged so far. The file system counts them as used from then on, read or not.
    pub fn bytes_staged(&self) -> u64 {
        self.staged.load(Ordering::Relaxed)
    }

    /// Counts an object of `bytes` that was staged.
    pub fn count_staged(&self, bytes: u64) {
        self.staged.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Ends the reading at the next piece.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns true once [`ReadMonitor::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Counts `bytes` that were read.
    pub(crate) fn count(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }
}
