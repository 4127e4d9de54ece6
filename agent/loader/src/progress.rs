//! Progress of a cold load.

use std::fmt;
use std::sync::Arc;

/// Progress of a cold load. Reported by worker threads, once per segment of 4 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Bytes of tensor data read and hashed so far.
    pub done: u64,
    /// Bytes of tensor data in the file.
    pub total: u64,
}

impl Progress {
    /// `done` of `total` bytes.
    pub const fn new(done: u64, total: u64) -> Self {
        Self { done, total }
    }
}

/// A callback that receives the progress of a load.
#[derive(Clone)]
pub struct ProgressFn(Arc<dyn Fn(Progress) + Send + Sync>);

impl ProgressFn {
    /// Wraps `callback`, which should return soon: a worker waits for it.
    pub fn new(callback: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(callback))
    }

    /// Calls the callback.
    pub fn report(&self, progress: Progress) {
        (self.0)(progress);
    }
}

impl fmt::Debug for ProgressFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressFn")
    }
}
