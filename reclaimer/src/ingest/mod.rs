//! Ingest of files and memory for clients that can only read a store (LAYOUT.md 11.5, 11.7).
//!
//! # Flow
//! A connection hands the passed descriptor to [`Broker::ask`]. A separate thread inspects it.
//! Then the client joins the ingest job of that file, or begins one. A job waits for its turn;
//! reads, hashes and publishes the file through tetris-agent's pipeline; and keeps it referenced
//! until all its clients are done, for [`HOLD`] at most.
//!
//! # Guarantees
//! - The broker reads a file once for all clients that ask at the same time: it finds jobs by the
//!   descriptor's `fstat`.
//! - Every call on a descriptor may block, so none happens on the runtime's threads. A descriptor
//!   that blocks for ever uses up its thread and the connection's place, of which its user has few,
//!   but no other user's turn.
//! - The broker binds no identity without hashing the file itself, and none of a file whose server
//!   could make up its `fstat`.
//!
//! # Assumptions
//! Local file systems answer. If the device of one hangs in the kernel, it keeps the turns of its
//! readers.

mod broker;
mod descriptor;
mod domain;
mod finished;
mod header_memory;
mod job;
mod memory;
mod observer;
mod options;
mod read;
mod read_memory;
mod reading_time;
mod refusal_log;
mod reserved;
mod run;
mod schedule;
mod state;
mod turns;

use std::any::Any;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::{DerivedRecord, ManifestId, ManifestKind, ObjectRef, Store};
use tetris_wire::daemon::{IngestReason, IngestRefusal};
use tetris_wire::{Aside, Closer};

use crate::room::{RoomNeed, RoomResult};

pub use broker::{Broker, Ticket};
pub use observer::{EndedIngest, IngestObserver, IngestOutcome};
pub use options::{IngestConfig, IngestOptions};
pub use turns::{BuildTurn, MAX_TURN};

/// Time that a file stays referenced for clients that have not attached it yet.
pub const HOLD: Duration = Duration::from_secs(10);

/// A request for room. The answer goes to the function.
pub type AskRoom = dyn Fn(RoomNeed, Box<dyn FnOnce(RoomResult) + Send>) + Send + Sync;

/// A store that files are published in.
#[derive(Debug, Clone)]
pub struct TargetStore {
    /// Its name.
    pub name: String,
    /// The store, open for writing.
    pub store: Arc<Store>,
}

/// A descriptor that a client passed, with its place among that client's until it is closed.
/// Dropping it never blocks.
pub struct PassedFile {
    file: Aside<File>,
}

impl PassedFile {
    /// A descriptor that `closer` closes, and the place that it takes until then, which may be long
    /// after the client has gone.
    pub fn new(descriptor: OwnedFd, place: Arc<dyn Any + Send + Sync>, closer: &Closer) -> Self {
        let mut file = Aside::new(File::from(descriptor), closer);
        file.keep(place);
        Self { file }
    }
}

impl std::fmt::Debug for PassedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PassedFile").finish_non_exhaustive()
    }
}

/// A client's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IngestRequest {
    /// A file, of which a manifest of this kind is made.
    File(ManifestKind),
    /// Sealed memory, whose bytes make this object.
    Memory(ObjectRef),
    /// Sealed memory with the manifest of a file whose objects are in the store, and the file's header.
    Assembly(AssemblyRequest),
    /// A derived tensor, by the word of its key's domain. Nothing is passed for it.
    Derived(Arc<DerivedRecord>),
}

impl IngestRequest {
    /// Bytes done and of all, once `read` bytes were read for a descriptor of `size` bytes. A manifest is proved by its objects,
    /// whose bytes are more than what was passed: a client that saw no progress would give up.
    fn progress(&self, read: u64, size: u64) -> (u64, u64) {
        match self {
            Self::Assembly(_) => (read, read.max(size)),
            Self::File(_) | Self::Memory(_) | Self::Derived(_) => (read.min(size), size),
        }
    }
}

/// Claims about passed memory with a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssemblyRequest {
    /// Length of the manifest in bytes.
    pub manifest_len: u64,
    /// SHA-256 of the file.
    pub sha256: Option<[u8; 32]>,
}

/// Name in the store of what was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// A file's manifest.
    Manifest(ManifestId),
    /// An object.
    Object(ObjectRef),
    /// The record of a derived tensor.
    Derived,
}

/// Progress of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// This number of others is served first.
    Waiting(u32),
    /// It is being read.
    Reading {
        /// Bytes read so far.
        done: u64,
        /// Bytes of the file.
        total: u64,
    },
    /// It is in the store.
    Done {
        /// Its name there.
        stored: Stored,
        /// Bytes that were read.
        bytes_read: u64,
    },
    /// It is not.
    Refused(IngestRefusal),
}

/// Counts of a broker since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IngestCounts {
    /// Files that were read and published, or found to be in the store.
    pub served: u64,
    /// Files that were not.
    pub refused: u64,
    /// Bytes read.
    pub bytes_read: u64,
}

fn refusal(reason: IngestReason, text: impl Into<String>) -> IngestRefusal {
    IngestRefusal {
        reason,
        text: text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_of_a_manifest_shows_progress_beyond_what_was_passed() {
        let assembly = IngestRequest::Assembly(AssemblyRequest {
            manifest_len: 7,
            sha256: Some([1; 32]),
        });
        let shown = [0, 1 << 20, 2 << 20].map(|read| assembly.progress(read, 4096));
        assert_eq!(shown, [(0, 4096), (1 << 20, 1 << 20), (2 << 20, 2 << 20)]);
        let file = IngestRequest::File(ManifestKind::File);
        assert_eq!(file.progress(5000, 4096), (4096, 4096));
    }
}
