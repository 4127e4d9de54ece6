//! Publishing of sealed memory for a process that can only read the store.
//!
//! Bytes are read by position, never mapped, and the buffers that are written are those that are
//! hashed. So an object's name is true whatever the process does meanwhile.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tetris_store_layout::{Access, MapError, Mapping, ObjectRef, Store};

use super::error::IngestError;
use super::{ROOM_ATTEMPTS, in_pages};
use crate::error::LoadError;
use crate::monitor::ReadMonitor;
use crate::object_bytes::{SegmentSink, each_segment, named};

/// Name of the memory in errors.
const NAME: &str = "passed memory";

/// Publishing of one memory file, and the means for it.
pub struct MemoryIngest<'a> {
    /// The store to publish to, writable.
    pub store: &'a Store,
    /// The object that the process claims for the bytes.
    pub object: ObjectRef,
    /// Threads that read and hash.
    pub threads: NonZeroUsize,
    /// Watches the reading.
    pub monitor: Arc<ReadMonitor>,
    /// Called when the store is full, with the number of bytes needed; true when some were freed.
    pub make_room: &'a (dyn Fn(u64) -> bool + Sync),
}

/// Memory that is in the store, and referenced there while this lives.
#[derive(Debug)]
pub struct IngestedMemory {
    /// The object.
    pub object: ObjectRef,
    /// Number of read bytes; 0 when the object was there.
    pub bytes_read: u64,
    _reference: Mapping,
}

impl MemoryIngest<'_> {
    /// The object, if it is in the store already. Reads nothing of the memory: an object's name is
    /// true of its bytes (INV-1).
    ///
    /// # Errors
    /// As [`Store::map`].
    pub fn known(&self) -> Result<Option<IngestedMemory>, MapError> {
        let mapping = self.store.map(&self.object, Access::ReadOnly)?;
        Ok(mapping.map(|mapping| IngestedMemory {
            object: self.object,
            bytes_read: 0,
            _reference: mapping,
        }))
    }

    /// Memory that the object will occupy in the store, in bytes.
    pub fn needed(&self) -> u64 {
        in_pages(self.object.len)
    }

    /// Reads, hashes and publishes the memory.
    ///
    /// # Errors
    /// [`IngestError::OtherBytes`] when the bytes make another object; nothing is published then.
    /// Otherwise the memory cannot be read, or the store does not take it.
    pub fn run(&self, file: &File) -> Result<IngestedMemory, IngestError> {
        for _ in 0..ROOM_ATTEMPTS {
            match self.publish(file) {
                Err(IngestError::Publish(error))
                    if error.is_full() && (self.make_room)(self.needed()) => {}
                result => return result,
            }
        }
        self.publish(file)
    }

    fn publish(&self, file: &File) -> Result<IngestedMemory, IngestError> {
        let len = self.object.len;
        let staging = self.store.stage(len)?;
        self.monitor.count_staged(len);
        let read = |at: u64, buffer: &mut [u8]| {
            if self.monitor.is_cancelled() {
                return Err(IngestError::Cancelled);
            }
            let read = file.read_exact_at(buffer, at);
            read.map_err(|error| LoadError::io("read", Path::new(NAME), error))?;
            self.monitor.count(buffer.len() as u64);
            Ok(())
        };
        let write = |index| SegmentSink::Write(staging.segment(index));
        let segments = each_segment(len, &read, self.threads.get(), write)?;
        let found = named(len, &segments)?;
        if found != self.object {
            return Err(IngestError::OtherBytes {
                expected: self.object.file_name(),
                found: found.file_name(),
            });
        }
        let published = staging.commit(&segments, Access::ReadOnly)?;
        Ok(IngestedMemory {
            object: published.object,
            bytes_read: len,
            _reference: published.mapping,
        })
    }
}
