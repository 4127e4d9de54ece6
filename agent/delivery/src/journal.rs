//! The objects that earlier attempts to pull a file have published, so that a pull goes on after a kill.
//!
//! A file's manifest is known when all of it was read. Until then each object is noted as the result
//! of a range of the file; notes go with their objects, and when the file is complete.

use tetris_store_layout::{
    Access, DerivedKey, Digest, ObjectRef, PublishOutcome, Published, Store, TensorId,
};

use crate::destination::Destination;
use crate::listing::RemoteFile;

/// Objects below this are fetched again: a note takes a page and an inode.
const LEAST_BYTES: u64 = 1 << 20;
/// Version of the notes.
const VERSION: u32 = 1;

/// Notes about one version of a file.
pub(crate) struct Journal<'a> {
    store: &'a Store,
    /// The file; `None` where the source names no version, or a daemon writes the store.
    file: Option<TensorId>,
}

impl<'a> Journal<'a> {
    /// The notes about `file`. In a store that a daemon writes there are none, since no one would remove them.
    pub(crate) fn of(file: &RemoteFile, destination: Destination<'a>) -> Self {
        let store = destination.store;
        let digest = file.source_digest().or_else(|| {
            let digest = file.sha256?;
            Some(*blake3::Hasher::new().update(&digest).finalize().as_bytes())
        });
        Self {
            store,
            file: digest
                .filter(|_| destination.publisher.is_none())
                .map(|digest| TensorId(Digest(digest))),
        }
    }

    fn key(&self, at: u64, len: u64) -> Option<DerivedKey> {
        let file = self.file.filter(|_| len >= LEAST_BYTES)?;
        DerivedKey::new(file, format!("pulled {len} bytes at {at}"), VERSION).ok()
    }

    /// The object made of a range, if it is there.
    pub(crate) fn object(&self, at: u64, len: u64) -> Option<Published> {
        let noted = self.store.derived(&self.key(at, len)?, Access::ReadOnly);
        let noted = noted
            .ok()
            .flatten()
            .filter(|noted| noted.object.len == len)?;
        Some(Published {
            outcome: PublishOutcome::Existing,
            ..noted
        })
    }

    /// Notes the object made of a range. A pull does not fail for want of a note.
    pub(crate) fn note(&self, at: u64, object: ObjectRef) {
        let key = self.key(at, object.len);
        if let Some(error) = key.and_then(|key| self.store.record_derived(&key, object).err()) {
            tracing::debug!(%error, "after a kill, an object will be fetched again");
        }
    }

    /// Removes the note about a range.
    pub(crate) fn remove(&self, at: u64, len: u64) {
        if let Some(key) = self.key(at, len) {
            let _may_stay = self.store.remove_derived(key.id());
        }
    }
}
