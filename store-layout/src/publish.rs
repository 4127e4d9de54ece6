//! Publishing an object: steps P1 to P9 of LAYOUT.md 5.1.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::ftruncate;

use crate::access::Access;
use crate::crash;
use crate::error::{IoError, MapError, PublishError};
use crate::folder::Folder;
use crate::hash::{SEGMENT_BYTES, SegmentDigest, SegmentHasher, combine, segment_count};
use crate::interrupted::retried;
use crate::lock::{LockKind, try_lock};
use crate::mapping::Mapping;
use crate::store::{ObjectRef, Store};
use crate::unnamed_file::{link, seal, unnamed};

/// Most times that an object is linked because the one that was there first was removed.
const ATTEMPTS: u32 = 16;

/// The origin of an object in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishOutcome {
    /// This process did.
    New,
    /// It was there, or another process was faster.
    Existing,
}

/// An object that is in the store, and the reference to it.
#[derive(Debug)]
pub struct Published {
    /// The object.
    pub object: ObjectRef,
    /// True if this process published it.
    pub outcome: PublishOutcome,
    /// The object's bytes; dropping this drops the reference.
    pub mapping: Mapping,
}

/// An object under construction: an unnamed file, gone with this value unless committed.
///
/// Its segments can be written by several threads at once.
#[derive(Debug)]
pub struct Staging<'store> {
    store: &'store Store,
    file: File,
    len: u64,
    path: PathBuf,
}

/// Writes and hashes one segment of a staged object, in order.
///
/// The buffers that are written are the ones that are hashed, so an object's name is true of its
/// bytes (INV-1) even when the source changes while it is read.
#[derive(Debug)]
pub struct SegmentWriter<'staging> {
    staging: &'staging Staging<'staging>,
    hasher: SegmentHasher,
    offset: u64,
}

impl Store {
    /// Stages an object of `len` bytes (P1, P2a, P2b).
    ///
    /// # Errors
    /// [`PublishError::is_full`] when the store has no room for it.
    pub fn stage(&self, len: u64) -> Result<Staging<'_>, PublishError> {
        self.require_writable()?;
        let path = self.path(Folder::Objects, "(new object)");
        let file = unnamed(self.folder(Folder::Objects), &path)?;
        crash::passed("P1");
        let bytes = i64::try_from(len).map_err(|_| Errno::EFBIG);
        let bytes = bytes.map_err(|error| IoError::new("allocate", &path, error))?;
        retried(|| ftruncate(&file, bytes)).map_err(|error| IoError::new("size", &path, error))?;
        crash::passed("P2a");
        allocate(&file, bytes).map_err(|error| IoError::new("allocate", &path, error))?;
        crash::passed("P2b");
        Ok(Staging {
            store: self,
            file,
            len,
            path,
        })
    }

    /// Publishes `bytes` as one object, unless they are in the store already.
    pub fn publish(&self, bytes: &[u8], access: Access) -> Result<Published, PublishError> {
        let object = ObjectRef::of(bytes);
        if let Ok(Some(mapping)) = self.map(&object, access) {
            return Ok(Published {
                object,
                outcome: PublishOutcome::Existing,
                mapping,
            });
        }
        let staging = self.stage(object.len)?;
        let mut digests = Vec::new();
        for index in 0..segment_count(object.len) {
            let mut writer = staging.segment(index);
            let start = (index * SEGMENT_BYTES) as usize;
            let rest = bytes.get(start..).unwrap_or_default();
            let segment = rest.get(..SEGMENT_BYTES as usize).unwrap_or(rest);
            writer.write(segment)?;
            digests.push(writer.finish());
        }
        staging.commit(&digests, access)
    }
}

impl Staging<'_> {
    /// Length of the object in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for an object without bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The unnamed file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Begins segment `index` (P3).
    pub fn segment(&self, index: u64) -> SegmentWriter<'_> {
        SegmentWriter {
            staging: self,
            hasher: SegmentHasher::new(self.len, index),
            offset: index * SEGMENT_BYTES,
        }
    }

    /// Names the object after its bytes and maps it (P4 to P9). `segments` are the digests of all
    /// segments, in order.
    pub fn commit(
        self,
        segments: &[SegmentDigest],
        access: Access,
    ) -> Result<Published, PublishError> {
        let found = segments.iter().map(SegmentDigest::len).sum();
        let (id, crc) =
            combine(segments)
                .filter(|_| found == self.len)
                .ok_or(PublishError::Length {
                    expected: self.len,
                    found,
                })?;
        crash::passed("P4");
        let object = ObjectRef {
            id,
            crc,
            len: self.len,
        };
        let name = object.file_name();
        let path = self.store.path(Folder::Objects, &name);
        seal(&self.file, self.store.folder(Folder::Objects), &path)?;
        crash::passed("P5");
        // No one else can open what has no name, and so no one can be in the way.
        let locked = try_lock(&self.file, LockKind::Read);
        locked
            .and_then(|locked| locked.then_some(()).ok_or(Errno::EAGAIN))
            .map_err(|error| IoError::new("lock", &path, error))?;
        crash::passed("P6");
        for _ in 0..ATTEMPTS {
            let dir = self.store.folder(Folder::Objects);
            let outcome = if link(&self.file, dir, &name, &path)? {
                PublishOutcome::New
            } else {
                PublishOutcome::Existing
            };
            crash::passed("P7");
            let mapped = match self.store.map(&object, access) {
                // What has the name is not the object: out of the way, and ours takes its place.
                Err(MapError::Damaged { .. }) => {
                    self.store.quarantine(&object)?;
                    None
                }
                mapped => mapped?,
            };
            if let Some(mapping) = mapped {
                crash::passed("P8");
                drop(self.file);
                crash::passed("P9");
                return Ok(Published {
                    object,
                    outcome,
                    mapping,
                });
            }
            // Ours had the name and our lock keeps reclaimers off: it was quarantined, or removed by
            // hand. It is not named again, which would bring back a quarantined object.
            if outcome == PublishOutcome::New {
                break;
            }
        }
        Err(PublishError::Vanished { path })
    }
}

/// P2b, for a file that has its length. A kernel may let a signal undo what the interrupted call has allocated, and with a timer that ticks a
/// large object would never be allocated as a whole: then it is allocated piece by piece.
fn allocate(file: &File, len: i64) -> Result<(), Errno> {
    const PIECE: i64 = 64 << 20;
    let allocate = |at, len| fallocate(file, FallocateFlags::empty(), at, len);
    if len == 0 {
        return Ok(());
    }
    match allocate(0, len) {
        Err(Errno::EINTR) => {}
        done => return done,
    }
    for at in (0..len).step_by(PIECE as usize) {
        retried(|| allocate(at, PIECE.min(len - at)))?;
    }
    Ok(())
}

impl SegmentWriter<'_> {
    /// Appends `bytes` to the segment.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), PublishError> {
        self.staging
            .file
            .write_all_at(bytes, self.offset)
            .map_err(|error| IoError::new("write", &self.staging.path, error))?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        crash::passed("P3");
        Ok(())
    }

    /// Ends the segment.
    pub fn finish(self) -> SegmentDigest {
        self.hasher.finish()
    }
}
