//! Reading, hashing and publishing objects over all cores.
//!
//! The unit of work is a segment of 4 MiB: a worker reads it piece by piece into a buffer that stays
//! in its cache, hashes the piece and writes it to the staged object. Whether an object is in the
//! store already is known only when it has been hashed, so a worker guesses: as the last object
//! was. After a wrong guess either the staged pages are dropped, or the object is read again.
//!
//! Objects are taken in random order, so that agents that load similar models at once work on
//! different tensors (Tetris, section 4).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rand::seq::SliceRandom;
use tetris_store_layout::{
    Access, Mapping, ObjectRef, Outcome, PublishError, SEGMENT_BYTES, SegmentDigest, SegmentHasher,
    SegmentWriter, Staging, Store, combine, segment_count, segment_len,
};

use crate::error::LoadError;
use crate::map_limit::{GIVE_BACK, MapLimit};
use crate::options::{Progress, ProgressFn};
use crate::plan::Job;
use crate::private::PrivateBytes;
use crate::source::{Failure, Source};
use crate::threads;

/// Bytes read, hashed and written at a time: a huge page, which the kernel need not zero when it is
/// written as a whole, and little enough to be in the core's cache still when it is written. Measured: a
/// first load is 15 % faster than with pieces of 256 KiB.
const BUFFER_BYTES: usize = 2 << 20;

/// How often room is made for one object: another thread or process may take it first.
const ROOM_ATTEMPTS: u32 = 16;

/// What a worker does with the objects.
pub(crate) struct Pipeline<'a> {
    pub(crate) source: &'a Source,
    pub(crate) jobs: &'a [Job],
    /// Where to look objects up and publish them; `None` to hash only.
    pub(crate) store: Option<&'a Store>,
    /// The objects are known not to be in the store.
    pub(crate) known_missing: bool,
    pub(crate) access: Access,
    pub(crate) threads: usize,
    pub(crate) progress: Option<&'a ProgressFn>,
    /// Called when the store is full, with the bytes needed; `true` when some were freed.
    pub(crate) make_room: &'a (dyn Fn(u64) -> bool + Sync),
}

/// An object that has been hashed.
#[derive(Debug)]
pub(crate) struct Hashed {
    pub(crate) object: ObjectRef,
    /// The reference, if the object is in the store.
    pub(crate) mapping: Option<(Mapping, Outcome)>,
}

/// What a run of the pipeline gave.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// One per job, in order.
    pub(crate) objects: Vec<Hashed>,
    /// Bytes read from the model file.
    pub(crate) bytes_read: u64,
    /// Why the store did not take an object, if it did not.
    pub(crate) refused: Option<String>,
    /// The process has as many mappings as it may have: no thread can be started safely.
    pub(crate) at_map_limit: bool,
}

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

struct Shared<'a> {
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

/// What adds up over the passes of a run.
#[derive(Default)]
struct Tally {
    bytes_read: AtomicU64,
    /// Why the store did not take an object; the first reason is the one to tell.
    refused: Mutex<Option<String>>,
    limit: MapLimit,
}

impl Pipeline<'_> {
    /// Hashes all jobs, and publishes or finds their objects if there is a store.
    pub(crate) fn run(&self) -> Result<Run, Failure> {
        let tally = Tally::default();
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.shuffle(&mut rand::rng());
        let mut objects: Vec<Option<Hashed>> = Vec::new();
        objects.resize_with(self.jobs.len(), || None);

        // The first guess: the shortest object is a cheap sample of the others.
        let mut expect_hit = self.store.is_none();
        let len_of = |&index: &usize| self.jobs.get(index).map_or(0, |job| job.len);
        let sample = order.iter().copied().min_by_key(len_of);
        if let (Some(store), Some(index), false) = (self.store, sample, self.known_missing)
            && let Some(place) = objects.get_mut(index)
        {
            *place = self.sample(store, index, &tally)?;
            let existing = |hashed: &Hashed| matches!(hashed.mapping, Some((_, Outcome::Existing)));
            expect_hit = place.as_ref().is_some_and(existing);
        }
        order.retain(|&index| !is_hit(&objects, index));
        self.pass(&order, expect_hit, false, &tally, &mut objects)?;
        if let Some(store) = self.store.filter(|store| store.is_writable()) {
            order.retain(|&index| !is_hit(&objects, index));
            self.pass(&order, false, true, &tally, &mut objects)?;
            self.look_again(store, &tally, &mut objects);
        }
        let at_map_limit = tally.limit.is_met();
        if at_map_limit {
            let mapped = objects.iter_mut().flatten();
            let mapped = mapped.filter(|hashed| hashed.mapping.is_some());
            mapped
                .take(GIVE_BACK)
                .for_each(|hashed| hashed.mapping = None);
        }
        Ok(Run {
            at_map_limit,
            objects: objects
                .into_iter()
                .collect::<Option<_>>()
                .ok_or_else(|| self.unfinished())?,
            bytes_read: tally.bytes_read.into_inner(),
            refused: tally
                .refused
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        })
    }

    /// Reads a small object as a whole and publishes it, unless it is in the store already. `None`
    /// when it is not small, or the store did not take it: then it is an object like the others.
    fn sample(
        &self,
        store: &Store,
        index: usize,
        tally: &Tally,
    ) -> Result<Option<Hashed>, Failure> {
        let Some(job) = self.jobs.get(index).filter(|job| job.len <= SEGMENT_BYTES) else {
            return Ok(None);
        };
        let mut bytes = self.buffer(job.len)?;
        job.read(self.source, 0, bytes.as_mut_slice())?;
        let Ok(published) = store.publish(bytes.as_slice(), self.access) else {
            return Ok(None);
        };
        tally.bytes_read.fetch_add(job.len, Ordering::Relaxed);
        Ok(Some(Hashed {
            object: published.object,
            mapping: Some((published.mapping, published.outcome)),
        }))
    }

    /// Others may have published meanwhile what there was no room for.
    fn look_again(&self, store: &Store, tally: &Tally, objects: &mut [Option<Hashed>]) {
        for hashed in objects.iter_mut().flatten() {
            if hashed.mapping.is_none()
                && !tally.limit.is_met()
                && let Ok(Some(mapping)) = store.map(&hashed.object, self.access)
            {
                hashed.mapping = Some((mapping, Outcome::Existing));
            }
        }
    }

    /// An object without a result: a bug, and better an error than tensors in the wrong places.
    fn unfinished(&self) -> LoadError {
        let error = std::io::Error::other("an object was not hashed (this is a bug)");
        LoadError::io("hash", self.source.path(), error)
    }

    fn buffer(&self, bytes: u64) -> Result<PrivateBytes, LoadError> {
        PrivateBytes::zeroed(bytes).ok_or_else(|| LoadError::OutOfMemory {
            path: self.source.path().to_owned(),
            bytes,
        })
    }

    /// Works through the jobs of `order`.
    fn pass(
        &self,
        order: &[usize],
        expect_hit: bool,
        stage_all: bool,
        tally: &Tally,
        objects: &mut [Option<Hashed>],
    ) -> Result<(), Failure> {
        if order.is_empty() {
            return Ok(());
        }
        let jobs = || {
            order
                .iter()
                .filter_map(|&index| Some((index, self.jobs.get(index)?)))
        };
        let shared = Shared {
            pipeline: self,
            slots: self.jobs.iter().map(Slot::new).collect(),
            tasks: jobs()
                .flat_map(|(index, job)| (0..segment_count(job.len)).map(move |s| (index, s)))
                .collect(),
            next: AtomicUsize::new(0),
            expect_hit: AtomicBool::new(expect_hit),
            stage_all,
            failed: AtomicBool::new(false),
            tally,
            total: self.jobs.iter().map(|job| job.len).sum(),
        };
        threads::run(self.threads.min(shared.tasks.len()), || shared.work())?;
        for (slot, object) in shared.slots.into_iter().zip(objects) {
            let state = slot
                .state
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner);
            if state.done.is_some() {
                *object = state.done;
            }
        }
        Ok(())
    }
}

/// Whether the object is done with: referenced.
fn is_hit(objects: &[Option<Hashed>], index: usize) -> bool {
    matches!(objects.get(index), Some(Some(hashed)) if hashed.mapping.is_some())
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
    /// Takes segments until none is left.
    fn work(&self) -> Result<(), Failure> {
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
