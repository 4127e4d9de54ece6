//! Room for waiting loads: requests, answers, and references that the daemon itself can give up.

use std::fmt;

use tetris_reclaimer_core::Space;
use tetris_store_layout::RecordUse;

/// Room that a waiting load needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoomNeed {
    /// The store's name.
    pub store: String,
    /// Number of free bytes that its mount must have.
    pub bytes: u64,
    /// Number of files that must fit there.
    pub inodes: u64,
    /// Records that must fit within the store's limits for records. Their bytes are part of `bytes`
    /// only where the store has a limit.
    pub records: RecordUse,
}

/// Answer to a [`RoomNeed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomResult {
    /// The reason for a lack of room; `None` when the requested room is free now. Other processes
    /// may take it first.
    pub refused: Option<RoomRefusal>,
    /// Free bytes on the mount.
    pub free_bytes: u64,
    /// Bytes that the pass freed there.
    pub freed_bytes: u64,
    /// Missing bytes; 0 when only files are missing.
    pub missing_bytes: u64,
}

/// Reason for a lack of room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomRefusal {
    /// The store cannot be used now, or a dry run frees nothing.
    Unavailable,
    /// An empty mount, or an empty store within its limits for records, would be too small.
    TooLarge,
    /// The store is at its limit, and its own objects are mapped or declared warm.
    Limit,
    /// The remaining objects are mapped.
    InUse,
    /// Policy keeps objects without a reference, declared warm or guaranteed to another store, or
    /// keeps room free for the guarantees of others.
    Policy,
}

/// Room that loads were granted.
pub trait GrantedRoom: fmt::Debug + Send {
    /// The part that the file system does not count as used yet, by the name of the store.
    fn left(&self) -> Vec<(String, Space)>;
}

/// References that a part of the daemon holds, and can release for a load.
pub trait DaemonReferences: fmt::Debug + Send {
    /// Releases references in the named stores. Returns their bytes. Blocks for seconds at most.
    fn release(&self, stores: &[String]) -> u64;
}
