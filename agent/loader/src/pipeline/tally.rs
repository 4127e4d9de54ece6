//! Counts of a pipeline, from all its threads.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use tetris_store_layout::PublishError;

use crate::map_limit::MapLimit;

/// Counts over the sweeps of a run.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) bytes_read: AtomicU64,
    /// The first reason for which the store did not take an object.
    pub(crate) refused: Mutex<Option<PublishError>>,
    pub(crate) limit: MapLimit,
}
