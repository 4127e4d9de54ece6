//! Reading objects of a file: through the pipeline that hashes and publishes, or once into private memory where the store cannot
//! be written; and the memory behind the file's objects in the end.

use std::sync::{Mutex, PoisonError};

use tetris_loader::{
    HashedObject, Job, LoadError, LoadFailure, MapLimit, PRIVATE_ALIGN, Pipeline, PipelineRun,
    PrivateBytes, Progress, Source, jobs_of_manifest, map_objects, threads,
};
use tetris_store_layout::{
    Manifest, ManifestKind, ObjectRef, PublishOutcome, SEGMENT_BYTES, SegmentHasher, Store, combine,
};

use super::recognize::KnownFile;
use super::{LoadContext, SharedLoad};
use crate::backing::{Backing, Backings};
use crate::private_reason::PrivateReason;
use crate::report::LoadReport;

/// The objects read from a known file.
#[derive(Default)]
pub(super) struct ReadObjects {
    /// One per missing object, in their order.
    pub(super) objects: Vec<HashedObject>,
    /// Those without a mapping, if the store cannot be written.
    pub(super) private: Option<Vec<PrivateBytes>>,
    /// Bytes read from the file.
    pub(super) bytes_read: u64,
    /// The first reason for which the store did not take an object, if there is one.
    pub(super) refused: Option<PrivateReason>,
}

impl LoadContext<'_> {
    /// Reads the objects with the indices `missing` from the file and publishes them. `None` when the
    /// file has other bytes than its manifest promises.
    pub(super) fn publish_missing(
        &self,
        load: SharedLoad<'_>,
        known: &KnownFile,
        missing: &[usize],
    ) -> Result<Option<ReadObjects>, LoadFailure> {
        let (expected, jobs): (Vec<_>, Vec<Job>) = jobs_of_manifest(&known.manifest)
            .into_iter()
            .enumerate()
            .filter(|(index, _)| missing.binary_search(index).is_ok())
            .filter_map(|(index, job)| Some((known.manifest.objects.get(index)?.object, job)))
            .unzip();
        let (run, private) = if load.store.is_writable() || load.kind == ManifestKind::File {
            (
                self.run_pipeline(load.source, &jobs, Some(load.store), true)?,
                None,
            )
        } else {
            let (run, private) = self.read_once(load.source, &jobs, load.store)?;
            (run, Some(private))
        };
        let objects_read = run.objects.iter().map(|hashed| hashed.object);
        if !objects_read.eq(expected) {
            return Ok(None);
        }
        Ok(Some(ReadObjects {
            objects: run.objects,
            private,
            bytes_read: run.bytes_read,
            refused: run
                .refused
                .as_ref()
                .map(|error| PrivateReason::of_publish(error, load.store)),
        }))
    }
}

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
        let mut mapped = Vec::new();
        if !limit.is_met() {
            mapped = map_objects(store, &[object], self.options.access, 1, limit);
        }
        let mapping = mapped.pop().flatten();
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

impl LoadContext<'_> {
    /// Hashes `jobs`, and publishes or finds their objects in `store`. With `known_missing` they are
    /// not looked up first.
    pub(super) fn run_pipeline(
        &self,
        source: &Source,
        jobs: &[Job],
        store: Option<&Store>,
        known_missing: bool,
    ) -> Result<PipelineRun, LoadFailure> {
        Pipeline {
            source,
            jobs,
            store,
            known_missing,
            access: self.options.access,
            threads: self.options.thread_count(),
            progress: self.options.progress.as_ref(),
            make_room: &|bytes| self.make_room(bytes),
        }
        .run()
    }
}

/// The objects of a file, some of them without a mapping.
pub(super) struct HashedFile {
    /// One per object of the manifest, in its order.
    pub(super) objects: Vec<HashedObject>,
    /// The reason for which the store did not take an object, if one is known.
    pub(super) refused: Option<PrivateReason>,
    /// True if the process has reached its limit of mappings: no thread can be started safely.
    pub(super) at_map_limit: bool,
    /// The objects without a mapping, if they have been read already.
    pub(super) private: Option<Vec<PrivateBytes>>,
}

impl LoadContext<'_> {
    /// Turns the objects of a file into backings. Reads those without a mapping into private memory.
    pub(super) fn complete(
        &self,
        source: &Source,
        manifest: &Manifest,
        file: HashedFile,
        report: &mut LoadReport,
    ) -> Result<Backings, LoadFailure> {
        let is_missing = |hashed: &HashedObject| hashed.mapping.is_none();
        let (mut private, mut buffers) = (Vec::new(), Vec::new());
        if file.objects.iter().any(is_missing) {
            let lengths = |hashed: &HashedObject| hashed.object.len;
            let missing = file.objects.iter().filter(|hashed| is_missing(hashed));
            let missing = missing.map(lengths).sum();
            let total = file.objects.iter().map(lengths).sum();
            report.set_private(self.private_reason(file.refused, missing, total));
            // A whole file is not copied: programs go on with the original.
            if manifest.kind == ManifestKind::File {
                return Ok(Backings::default());
            }
            if let Some(read) = file.private {
                private.extend(read.iter().enumerate().map(Backing::of_buffer));
                buffers = read;
            } else {
                let threads = if file.at_map_limit {
                    1
                } else {
                    self.options.thread_count()
                };
                let jobs: Vec<_> = jobs_of_manifest(manifest)
                    .into_iter()
                    .zip(&file.objects)
                    .filter_map(|(job, hashed)| is_missing(hashed).then_some(job))
                    .collect();
                let (places, buffer) = read_private(source, &jobs, threads, report)?;
                (private, buffers) = (places, vec![buffer]);
            }
        }
        let mut private = private.into_iter();
        let backings = file.objects.into_iter().map(|hashed| match hashed.mapping {
            Some((mapping, outcome)) => Some(Backing::Store {
                object: hashed.object,
                mapping,
                outcome,
            }),
            None => private.next(),
        });
        // One missing would shift the others under the wrong tensors.
        let backings = backings.collect::<Option<_>>().ok_or_else(|| {
            let error = std::io::Error::other("an object was not read (this is a bug)");
            LoadError::io("read", source.path(), error)
        })?;
        Ok(Backings::new(backings, buffers))
    }
}

/// Reads `jobs` from `source` into one buffer, segment by segment over all cores. Returns the jobs'
/// places in it, and the buffer.
pub(super) fn read_private(
    source: &Source,
    jobs: &[Job],
    threads: usize,
    report: &mut LoadReport,
) -> Result<(Vec<Backing>, PrivateBytes), LoadFailure> {
    let padded = |job: &Job| job.len().next_multiple_of(PRIVATE_ALIGN as u64);
    let total: u64 = jobs.iter().map(padded).sum();
    // Starting a thread takes as long as reading the most of a segment.
    let threads = if total <= SEGMENT_BYTES { 1 } else { threads };
    let out_of_memory = || LoadError::OutOfMemory {
        path: source.path().to_owned(),
        bytes: total,
    };
    let mut buffer = PrivateBytes::zeroed(total).ok_or_else(out_of_memory)?;
    let mut rest = buffer.as_mut_slice();
    let (mut at, mut places, mut tasks) = (0, Vec::with_capacity(jobs.len()), Vec::new());
    for job in jobs {
        let end = padded(job) as usize;
        let (own, others) = rest.split_at_mut_checked(end).ok_or_else(out_of_memory)?;
        rest = others;
        let target = own.get_mut(..job.len() as usize).unwrap_or_default();
        places.push(Backing::Private {
            buffer: 0,
            range: at..at + target.len(),
        });
        at += end;
        let segments = target.chunks_mut(SEGMENT_BYTES as usize).zip(0u64..);
        tasks.extend(segments.map(|(bytes, index)| (job, index * SEGMENT_BYTES, bytes)));
    }
    report.bytes_read += jobs.iter().map(Job::len).sum::<u64>();
    threads::for_each(threads, tasks, |(job, offset, bytes)| {
        job.read(source, offset, bytes)
    })?;
    Ok((places, buffer))
}
