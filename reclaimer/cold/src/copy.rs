//! Objects from one store to another, hashed on the way.

use std::fs::File;
use std::io;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use tetris_loader::{SegmentSink, each_segment, named};
use tetris_store_layout::{
    Access, IoError, Mapping, ObjectId, ObjectRef, PublishError, Published, SegmentDigest, Staging,
    Store,
};

use crate::disk_file::DiskFile;
use crate::error::ColdError;

/// Threads that copy an object: a disk needs a few requests at once.
const THREADS: usize = 4;

/// The result of a copy from a disk.
pub(crate) enum FromDisk {
    /// It is in the store, and mapped.
    Copied(Mapping),
    /// The bytes on the disk make this object.
    Damaged(ObjectId),
    /// It is not on the disk.
    Absent,
}

/// Failure of a copy within `each_segment`.
enum Failure {
    Read(io::Error),
    Write(PublishError),
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        Self::Write(error)
    }
}

/// Writes the mapped `object` to the cold store `to`, and returns when the disk has it.
pub(crate) fn to_disk(bytes: &Mapping, object: &ObjectRef, to: &Store) -> Result<(), ColdError> {
    let staging = to.stage(object.len)?;
    let read = |at: u64, buffer: &mut [u8]| {
        let at = at as usize;
        let piece = bytes.get(at..at + buffer.len());
        let piece = piece.ok_or_else(|| Failure::Read(io::ErrorKind::UnexpectedEof.into()))?;
        buffer.copy_from_slice(piece);
        Ok(())
    };
    let digests = copy(&staging, &read).map_err(|failure| failed(failure, object, to))?;
    let published = staging.commit(&digests, Access::ReadOnly)?;
    let path = to.object_path(&published.object);
    let io_failed = |source: io::Error| IoError::new("write to the disk", &path, source);
    drop(published);
    let file = File::open(&path).map_err(io_failed)?;
    file.sync_data().map_err(io_failed)?;
    forget(&file);
    Ok(())
}

/// Brings `object` from the cold store `from` into `to`, unless its bytes are others.
pub(crate) fn from_disk(
    object: &ObjectRef,
    from: &Store,
    to: &Store,
) -> Result<FromDisk, ColdError> {
    let path = from.object_path(object);
    let io_failed = |source: io::Error| IoError::new("read", &path, source);
    let file = match DiskFile::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FromDisk::Absent),
        opened => opened.map_err(io_failed)?,
    };
    if file.len().map_err(io_failed)? != object.len {
        return Ok(FromDisk::Absent);
    }
    let staging = to.stage(object.len)?;
    let read = |at, buffer: &mut [u8]| file.read_exact_at(buffer, at).map_err(Failure::Read);
    let digests = copy(&staging, &read).map_err(|failure| failed(failure, object, from))?;
    let on_disk = named(object.len, &digests)?;
    if on_disk != *object {
        return Ok(FromDisk::Damaged(on_disk.id));
    }
    let Published { mapping, .. } = staging.commit(&digests, Access::ReadOnly)?;
    Ok(FromDisk::Copied(mapping))
}

type Read<'a> = &'a (dyn Fn(u64, &mut [u8]) -> Result<(), Failure> + Sync);

fn copy(staging: &Staging<'_>, read: Read<'_>) -> Result<Vec<SegmentDigest>, Failure> {
    let sink = |index| SegmentSink::Write(staging.segment(index));
    each_segment(staging.len(), read, THREADS, sink)
}

fn failed(failure: Failure, object: &ObjectRef, store: &Store) -> ColdError {
    match failure {
        Failure::Read(source) => IoError::new("read", store.object_path(object), source).into(),
        Failure::Write(error) => error.into(),
    }
}

/// Takes a synced file out of the page cache, which would count as the daemon's memory.
fn forget(file: &File) {
    let _advice = posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
}
