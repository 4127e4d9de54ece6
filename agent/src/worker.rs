//! What the threads of a pipeline do: take segments, read, hash and write them, conclude objects.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tetris_store_layout::{
    ObjectRef, Outcome, PublishError, SEGMENT_BYTES, SegmentDigest, SegmentHasher, SegmentWriter,
    Staging, Store, combine, segment_count, segment_len,
};

use crate::map_limit::GIVE_BACK;
use crate::options::Progress;
use crate::pipeline::{Hashed, Pipeline, Tally};
use crate::plan::Job;
use crate::source::Failure;

/// Bytes read, hashed and written at a time: a huge page, which the kernel need not zero when it is
/// written as a whole, and little enough to be in the core's cache still when it is written. Measured: a
/// first load is 15 % faster than with pieces of 256 KiB.
const BUFFER_BYTES: usize = 2 << 20;

/// How often room is made for one object: another thread or process may take it first.
const ROOM_ATTEMPTS: u32 = 16;

/// An object on its way.
struct Slot<'a> {
    state: Mutex<State<'a>>,
}

struct State<'a> {
    begun: bool,
    /// Writing failed; the object can only be looked up.
    broken: bool,
    /// Nothing is to be done.
    skip: bool,
    staging: Option<Arc<Staging<'a>>>,
    digests: Vec<Option<SegmentDigest>>,
    left: u64,
    done: Option<Hashed>,
}

/// What the threads of one pass share.
pub(crate) struct Shared<'a> {
    pipeline: &'a Pipeline<'a>,
    slots: Vec<Slot<'a>>,
    /// Segments to do: index of the job, index of the segment.
    tasks: Vec<(usize, u64)>,
    next: AtomicUsize,
    expect_hit: AtomicBool,
    /// Stage every object, whatever is expected.
    stage_all: bool,
    failed: AtomicBool,
    tally: &'a Tally,
    total: u64,
}

impl Slot<'_> {
    fn new(job: &Job) -> Self {
        let segments = segment_count(job.len);
        Self {
            state: Mutex::new(State {
                begun: false,
                broken: false,
                skip: false,
                staging: None,
                digests: vec![None; segments as usize],
                left: segments,
                done: None,
            }),
        }
    }
}

impl<'a> Shared<'a> {
    /// The work of a pass over the jobs of `order`. `stage_all` stages every object, whatever is
    /// expected of it.
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
            slots: pipeline.jobs.iter().map(Slot::new).collect(),
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

    /// How many segments there are to do.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// What became of each job; `None` for those that were not in the order, or were skipped.
    pub(crate) fn into_done(self) -> impl Iterator<Item = Option<Hashed>> {
        self.slots.into_iter().map(|slot| {
            let state = slot.state.into_inner();
            state.unwrap_or_else(PoisonError::into_inner).done
        })
    }

    /// Takes segments until none is left.
    pub(crate) fn work(&self) -> Result<(), Failure> {
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
    ) -> Result<(), Failure> {
        let mut staging = match self.begin(job, slot) {
            Begun::Skip => return Ok(()),
            Begun::Hash => None,
            Begun::Stage(staging) => Some(staging),
        };
        let digest = match staging.as_deref() {
            None => self.hash_segment(job, segment, buffer)?,
            Some(to) => match self.write_segment(job, to.segment(segment), segment, buffer)? {
                Ok(digest) => digest,
                Err(error) => {
                    // Without the store, then; the digest is wanted all the same.
                    self.refuse(&error);
                    slot.lock().broken = true;
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
    ) -> Result<SegmentDigest, Failure> {
        let mut hasher = SegmentHasher::new(job.len, segment);
        self.each_piece(job, segment, buffer, |piece| {
            hasher.update(piece);
            Ok(())
        })?
        .unwrap_or_else(|never: std::convert::Infallible| match never {});
        Ok(hasher.finish())
    }

    fn write_segment(
        &self,
        job: &Job,
        mut writer: SegmentWriter<'_>,
        segment: u64,
        buffer: &mut [u8],
    ) -> Result<Result<SegmentDigest, PublishError>, Failure> {
        let written = self.each_piece(job, segment, buffer, |piece| writer.write(piece))?;
        Ok(written.map(|()| writer.finish()))
    }

    /// Reads a segment piece by piece. The outer error is the reader's, the inner one the taker's.
    fn each_piece<E>(
        &self,
        job: &Job,
        segment: u64,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, Failure> {
        let mut at = segment * SEGMENT_BYTES;
        let end = at + segment_len(job.len, segment);
        while at < end {
            let len = (end - at).min(buffer.len() as u64);
            let piece = buffer.get_mut(..len as usize).unwrap_or_default();
            job.read(self.pipeline.source, at, piece)?;
            if let Err(error) = take(piece) {
                return Ok(Err(error));
            }
            at += len;
        }
        Ok(Ok(()))
    }

    /// Decides, with an object's first segment, what is done with it.
    fn begin(&self, job: &Job, slot: &Slot<'a>) -> Begun<'a> {
        let mut state = slot.lock();
        if !state.begun {
            state.begun = true;
            let guess = self.stage_all || !self.expect_hit.load(Ordering::Relaxed);
            let store = self.pipeline.store.filter(|store| store.is_writable());
            if let Some(store) = store.filter(|_| guess) {
                let take = !self.tally.limit.is_met();
                let staging = take.then(|| self.stage(store, job.len)).flatten();
                state.staging = staging.map(Arc::new);
                // It has been hashed in the first pass, there is nothing to gain.
                state.skip = self.stage_all && state.staging.is_none();
            }
        }
        match &state.staging {
            _ if state.skip => Begun::Skip,
            Some(staging) if !state.broken => Begun::Stage(Arc::clone(staging)),
            _ => Begun::Hash,
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
        staged.map_err(|error| self.refuse(&error)).ok()
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
        let mut state = slot.lock();
        // Before the count goes down: whoever ends the last segment owns the staged object.
        drop(staging);
        if let Some(place) = state.digests.get_mut(segment as usize) {
            *place = Some(digest);
        }
        state.left -= 1;
        if state.left == 0 {
            let digests: Vec<_> = state.digests.drain(..).flatten().collect();
            let staging = state.staging.take().and_then(Arc::into_inner);
            let staging = staging.filter(|_| !state.broken);
            state.done = self.conclude(job, &digests, staging);
        }
        drop(state);
        let done = self.tally.bytes_read.fetch_add(len, Ordering::Relaxed) + len;
        if let Some(progress) = self.pipeline.progress {
            progress.report(Progress {
                done: done.min(self.total),
                total: self.total,
            });
        }
    }

    fn conclude(
        &self,
        job: &Job,
        digests: &[SegmentDigest],
        staging: Option<Staging<'a>>,
    ) -> Option<Hashed> {
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
                    self.refuse(&error);
                    None
                }
            },
            (Some(store), None) => match store.map(&object, access) {
                Ok(mapping) => mapping.map(|mapping| (mapping, Outcome::Existing)),
                // Damaged: publishing puts it aside.
                Err(error) => {
                    if self.tally.limit.meet(&error) {
                        self.give_back();
                        self.refuse(&error.into());
                    }
                    None
                }
            },
            (None, _) => None,
        };
        let hit = matches!(mapping, Some((_, Outcome::Existing)));
        self.expect_hit.store(hit, Ordering::Relaxed);
        Some(Hashed { object, mapping })
    }

    /// Unmaps objects that this pass has mapped; see [`MapLimit`].
    fn give_back(&self) {
        let mut left = GIVE_BACK;
        for slot in &self.slots {
            // Slots that are busy now, the caller's among them, have nothing to give yet.
            let Ok(mut state) = slot.state.try_lock() else {
                continue;
            };
            let done = state.done.as_mut();
            if done.and_then(|hashed| hashed.mapping.take()).is_some() {
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
    }

    /// Notes why the store did not take an object.
    fn refuse(&self, error: &PublishError) {
        let refused = self.tally.refused.lock();
        let mut refused = refused.unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert_with(|| error.to_string());
    }
}

/// What is done with a segment.
enum Begun<'a> {
    /// Nothing: the object has been hashed before and cannot be staged.
    Skip,
    /// It is hashed, to see whether the object is in the store.
    Hash,
    /// It is hashed and written.
    Stage(Arc<Staging<'a>>),
}

impl<'a> Slot<'a> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
