//! Work of the threads of a pipeline: they take segments, read, hash and write them, and conclude objects.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use tetris_store_layout::{
    ObjectRef, PublishError, PublishOutcome, SEGMENT_BYTES, SegmentDigest, SegmentHasher,
    SegmentWriter, Staging, Store, combine, segment_count, segment_len,
};

use super::hashed::HashedObject;
use super::inputs::Pipeline;
use super::slot::{SegmentWork, Slot};
use super::tally::Tally;
use crate::error::LoadFailure;
use crate::job::Job;
use crate::map_limit::GIVE_BACK;
use crate::progress::Progress;

/// Bytes read, hashed and written at a time: a huge page, which the kernel need not zero when it is
/// written as a whole, and little enough to be in the core's cache still when it is written. Measured: a
/// first load is 15 % faster than with pieces of 256 KiB.
const BUFFER_BYTES: usize = 2 << 20;

/// Most times that room is made for one object: another thread or process may take it first.
const ROOM_ATTEMPTS: u32 = 16;

/// The reason that a segment was not written.
enum SegmentFailure {
    /// The file cannot be read.
    Read(LoadFailure),
    /// The store does not take the object.
    Write(PublishError),
}

impl From<LoadFailure> for SegmentFailure {
    fn from(failure: LoadFailure) -> Self {
        Self::Read(failure)
    }
}

/// One sweep over jobs of a pipeline, as its threads share it.
pub(crate) struct SweepState<'a> {
    pipeline: &'a Pipeline<'a>,
    slots: Vec<Slot<'a>>,
    /// Segments to do: index of the job, index of the segment.
    tasks: Vec<(usize, u64)>,
    next: AtomicUsize,
    expect_hit: AtomicBool,
    /// Stage every object, even one expected to be in the store.
    stage_all: bool,
    failed: AtomicBool,
    tally: &'a Tally,
    total: u64,
}

impl<'a> SweepState<'a> {
    /// The work of a sweep over the jobs of `order`. `stage_all` stages every object, even one that is
    /// expected to be in the store.
    pub(crate) fn new(
        pipeline: &'a Pipeline<'a>,
        order: &[usize],
        expect_hit: bool,
        stage_all: bool,
        tally: &'a Tally,
    ) -> Self {
        let jobs = order
            .iter()
            .filter_map(|&index| Some((index, pipeline.jobs.get(index)?)));
        Self {
            pipeline,
            slots: pipeline.jobs.iter().map(|_| Slot::default()).collect(),
            tasks: jobs
                .flat_map(|(index, job)| (0..segment_count(job.len)).map(move |s| (index, s)))
                .collect(),
            next: AtomicUsize::new(0),
            expect_hit: AtomicBool::new(expect_hit),
            stage_all,
            failed: AtomicBool::new(false),
            tally,
            total: pipeline.jobs.iter().map(|job| job.len).sum(),
        }
    }

    /// Number of segments to do.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// The result of each job; `None` for those that were not in the order, or were skipped.
    pub(crate) fn into_hashed(self) -> impl Iterator<Item = Option<HashedObject>> {
        self.slots.into_iter().map(Slot::into_hashed)
    }

    /// Takes segments until none is left.
    pub(crate) fn work(&self) -> Result<(), LoadFailure> {
        let mut memory = self.pipeline.buffer(BUFFER_BYTES as u64)?;
        let buffer = memory.as_mut_slice();
        while !self.failed.load(Ordering::Relaxed) {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(&(index, segment)) = self.tasks.get(task) else {
                break;
            };
            let (Some(job), Some(slot)) = (self.pipeline.jobs.get(index), self.slots.get(index))
            else {
                break;
            };
            if let Err(failure) = self.segment(job, slot, segment, buffer) {
                self.failed.store(true, Ordering::Relaxed);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Reads, hashes and, if the object is staged, writes one segment.
    fn segment(
        &self,
        job: &Job,
        slot: &Slot<'a>,
        segment: u64,
        buffer: &mut [u8],
    ) -> Result<(), LoadFailure> {
        let mut staging = match slot.begin(segment_count(job.len), || self.decide(job)) {
            SegmentWork::Skip => return Ok(()),
            SegmentWork::Hash => None,
            SegmentWork::Stage(staging) => Some(staging),
        };
        let digest = match staging.as_deref() {
            None => self.hash_segment(job, segment, buffer)?,
            Some(to) => match self.write_segment(job, to.segment(segment), segment, buffer) {
                Ok(digest) => digest,
                Err(SegmentFailure::Read(failure)) => return Err(failure),
                Err(SegmentFailure::Write(error)) => {
                    // The object's digest is needed even so, to look it up.
                    self.refuse(error);
                    slot.stop_staging();
                    staging = None;
                    self.hash_segment(job, segment, buffer)?
                }
            },
        };
        self.end(job, slot, segment, digest, staging);
        Ok(())
    }

    fn hash_segment(
        &self,
        job: &Job,
        segment: u64,
        buffer: &mut [u8],
    ) -> Result<SegmentDigest, LoadFailure> {
        let mut hasher = SegmentHasher::new(job.len, segment);
        self.each_piece(job, segment, buffer, |piece| {
            hasher.update(piece);
            Ok::<(), LoadFailure>(())
        })?;
        Ok(hasher.finish())
    }

    fn write_segment(
        &self,
        job: &Job,
        mut writer: SegmentWriter<'_>,
        segment: u64,
        buffer: &mut [u8],
    ) -> Result<SegmentDigest, SegmentFailure> {
        self.each_piece(job, segment, buffer, |piece| {
            writer.write(piece).map_err(SegmentFailure::Write)
        })?;
        Ok(writer.finish())
    }

    /// Reads a segment, and passes it on piece by piece.
    fn each_piece<E: From<LoadFailure>>(
        &self,
        job: &Job,
        segment: u64,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = segment * SEGMENT_BYTES;
        let end = at + segment_len(job.len, segment);
        while at < end {
            let len = (end - at).min(buffer.len() as u64);
            let piece = buffer.get_mut(..len as usize).unwrap_or_default();
            job.read(self.pipeline.source, at, piece)?;
            take(piece)?;
            at += len;
        }
        Ok(())
    }

    /// Decides the work on an object, with its first segment.
    fn decide(&self, job: &Job) -> SegmentWork<'a> {
        let guess = self.stage_all || !self.expect_hit.load(Ordering::Relaxed);
        let store = self.pipeline.store.filter(|store| store.is_writable());
        let Some(store) = store.filter(|_| guess) else {
            return SegmentWork::Hash;
        };
        let take = !self.tally.limit.is_met();
        match take.then(|| self.stage(store, job.len)).flatten() {
            Some(staging) => SegmentWork::Stage(Arc::new(staging)),
            // Hashed by the first sweep: hashing it again would gain nothing.
            None if self.stage_all => SegmentWork::Skip,
            None => SegmentWork::Hash,
        }
    }

    /// Stages an object, making room for it if the store is full.
    fn stage(&self, store: &'a Store, len: u64) -> Option<Staging<'a>> {
        let mut staged = store.stage(len);
        for _ in 0..ROOM_ATTEMPTS {
            match &staged {
                Err(error) if error.is_full() && (self.pipeline.make_room)(len) => {}
                _ => break,
            }
            staged = store.stage(len);
        }
        if staged.is_ok() {
            self.pipeline.source.note_staged(len);
        }
        staged.map_err(|error| self.refuse(error)).ok()
    }

    /// Keeps a segment's digest; with the last one, publishes the object or looks it up.
    fn end(
        &self,
        job: &Job,
        slot: &Slot<'a>,
        segment: u64,
        digest: SegmentDigest,
        staging: Option<Arc<Staging<'a>>>,
    ) {
        let len = digest.len();
        slot.end(segment, digest, staging, |digests, staging| {
            self.conclude(job, digests, staging)
        });
        let done = self.tally.bytes_read.fetch_add(len, Ordering::Relaxed) + len;
        if let Some(progress) = self.pipeline.progress {
            progress.report(Progress::new(done.min(self.total), self.total));
        }
    }

    fn conclude(
        &self,
        job: &Job,
        digests: &[SegmentDigest],
        staging: Option<Staging<'a>>,
    ) -> Option<HashedObject> {
        let (id, crc) = combine(digests)?;
        let len = job.len;
        let object = ObjectRef { id, crc, len };
        let access = self.pipeline.access;
        let mapping = match (self.pipeline.store, staging) {
            _ if self.tally.limit.is_met() => None,
            (Some(_), Some(staging)) => match staging.commit(digests, access) {
                Ok(published) => Some((published.mapping, published.outcome)),
                Err(error) => {
                    if self.tally.limit.meet_publishing(&error) {
                        self.give_back();
                    }
                    self.refuse(error);
                    None
                }
            },
            (Some(store), None) => match store.map(&object, access) {
                Ok(mapping) => mapping.map(|mapping| (mapping, PublishOutcome::Existing)),
                // Damaged: publishing quarantines it.
                Err(error) => {
                    if self.tally.limit.meet(&error) {
                        self.give_back();
                        self.refuse(error.into());
                    }
                    None
                }
            },
            (None, _) => None,
        };
        let hit = matches!(mapping, Some((_, PublishOutcome::Existing)));
        self.expect_hit.store(hit, Ordering::Relaxed);
        Some(HashedObject { object, mapping })
    }

    /// Unmaps objects that this sweep has mapped; see [`MapLimit`](crate::MapLimit).
    fn give_back(&self) {
        let given = self.slots.iter().filter(|slot| slot.give_back());
        given.take(GIVE_BACK).for_each(drop);
    }

    /// Notes the error with which the store did not take an object.
    fn refuse(&self, error: PublishError) {
        let refused = self.tally.refused.lock();
        let mut refused = refused.unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert(error);
    }
}
