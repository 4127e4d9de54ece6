//! Results of reading threads: content that is in the store, and referenced there.

use std::any::Any;

use tetris_loader::ingest::{IngestedFile, IngestedMemory};
use tetris_store_layout::Mapping;

use super::Stored;

/// Content that is in the store, and referenced there while this lives.
pub(super) struct Finished {
    pub(super) stored: Stored,
    /// Number of read bytes; 0 if the content was there.
    pub(super) bytes_read: u64,
    _references: Box<dyn Any + Send>,
}

impl Finished {
    /// The record of a derived tensor, while `object` is referenced.
    pub(super) fn recorded(object: Mapping) -> Self {
        Self {
            stored: Stored::Derived,
            bytes_read: 0,
            _references: Box::new(object),
        }
    }
}

impl From<IngestedFile> for Finished {
    fn from(file: IngestedFile) -> Self {
        Self {
            stored: Stored::Manifest(file.manifest),
            bytes_read: file.bytes_read,
            _references: Box::new(file),
        }
    }
}

impl From<IngestedMemory> for Finished {
    fn from(memory: IngestedMemory) -> Self {
        Self {
            stored: Stored::Object(memory.object),
            bytes_read: memory.bytes_read,
            _references: Box::new(memory),
        }
    }
}
