//! A file for a store that this process can only read: each object is read once, into private memory,
//! and hashed there. One that the store has gives its private memory back at once.

use std::sync::{Mutex, PoisonError};

use tetris_loader::{
    HashedObject, Job, LoadError, LoadFailure, MapLimit, PipelineRun, PrivateBytes, Progress,
    Source, map_objects, threads,
};
use tetris_store_layout::{
    ObjectRef, PublishOutcome, SEGMENT_BYTES, SegmentHasher, Store, combine,
};

use super::context::LoadContext;

/// A read object: mapped, or in private memory.
struct ReadObject {
    hashed: HashedObject,
    private: Option<PrivateBytes>,
}

impl LoadContext<'_> {
    /// Reads `jobs`, hashes them, and maps those that `store` has. Returns the private bytes of the
    /// others as well, in their order.
    pub(super) fn read_once(
        &self,
        source: &Source,
        jobs: &[Job],
        store: &Store,
    ) -> Result<(PipelineRun, Vec<PrivateBytes>), LoadFailure> {
        let limit = MapLimit::default();
        let total = jobs.iter().map(Job::len).sum();
        let done = Mutex::new(0);
        let mut read: Vec<Option<ReadObject>> = Vec::new();
        read.resize_with(jobs.len(), || None);
        let tasks = jobs.iter().zip(&mut read).collect();
        threads::for_each(self.options.thread_count(), tasks, |(job, place)| {
            *place = Some(self.read_object(source, job, store, &limit)?);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += job.len();
            if let Some(progress) = &self.options.progress {
                progress.report(Progress::new(*done, total));
            }
            Ok::<(), LoadFailure>(())
        })?;
        let read = read.into_iter().collect::<Option<Vec<_>>>();
        let read = read.ok_or_else(|| unfinished(source))?;
        let (objects, private): (_, Vec<_>) = read
            .into_iter()
            .map(|object| (object.hashed, object.private))
            .unzip();
        let run = PipelineRun {
            objects,
            bytes_read: total,
            refused: None,
            at_map_limit: limit.is_met(),
        };
        Ok((run, private.into_iter().flatten().collect()))
    }

    fn read_object(
        &self,
        source: &Source,
        job: &Job,
        store: &Store,
        limit: &MapLimit,
    ) -> Result<ReadObject, LoadFailure> {
        let len = job.len();
        let mut private = PrivateBytes::zeroed(len).ok_or_else(|| LoadError::OutOfMemory {
            path: source.path().to_owned(),
            bytes: len,
        })?;
        let mut segments = Vec::new();
        let pieces = private.as_mut_slice().chunks_mut(SEGMENT_BYTES as usize);
        for (piece, segment) in pieces.zip(0..) {
            job.read(source, segment * SEGMENT_BYTES, piece)?;
            let mut hasher = SegmentHasher::new(len, segment);
            hasher.update(piece);
            segments.push(hasher.finish());
        }
        let (id, crc) = combine(&segments).ok_or_else(|| unfinished(source))?;
        let object = ObjectRef { id, crc, len };
        let mut found = Vec::new();
        if !limit.is_met() {
            found = map_objects(store, &[object], self.options.access, 1, limit);
        }
        let mapping = found.pop().flatten();
        Ok(ReadObject {
            private: mapping.is_none().then_some(private),
            hashed: HashedObject {
                object,
                mapping: mapping.map(|mapping| (mapping, PublishOutcome::Existing)),
            },
        })
    }
}

/// An object without a result: a bug, and better an error than tensors in the wrong places.
fn unfinished(source: &Source) -> LoadError {
    let error = std::io::Error::other("an object was not hashed (this is a bug)");
    LoadError::io("hash", source.path(), error)
}
