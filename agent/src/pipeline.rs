//! Reading, hashing and publishing objects over all cores.
//!
//! The unit of work is a segment of 4 MiB: a worker reads it piece by piece into a buffer that stays
//! in its cache, hashes the piece and writes it to the staged object. Whether an object is in the
//! store already is known only when it has been hashed, so a worker guesses: as the last object
//! was. After a wrong guess either the staged pages are dropped, or the object is read again.
//!
//! Objects are taken in random order, so that agents that load similar models at once work on
//! different tensors (Tetris, section 4).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::seq::SliceRandom;
use tetris_store_layout::{Access, Mapping, ObjectRef, Outcome, SEGMENT_BYTES, Store};

use crate::error::LoadError;
use crate::map_limit::{GIVE_BACK, MapLimit};
use crate::options::ProgressFn;
use crate::plan::Job;
use crate::private::PrivateBytes;
use crate::source::{Failure, Source};
use crate::threads;
use crate::worker::Shared;

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

/// What adds up over the passes of a run.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) bytes_read: AtomicU64,
    /// Why the store did not take an object; the first reason is the one to tell.
    pub(crate) refused: Mutex<Option<String>>,
    pub(crate) limit: MapLimit,
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

    pub(crate) fn buffer(&self, bytes: u64) -> Result<PrivateBytes, LoadError> {
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
        let shared = Shared::new(self, order, expect_hit, stage_all, tally);
        threads::run(self.threads.min(shared.task_count()), || shared.work())?;
        for (done, object) in shared.into_done().zip(objects) {
            if done.is_some() {
                *object = done;
            }
        }
        Ok(())
    }
}

/// Whether the object is done with: referenced.
fn is_hit(objects: &[Option<Hashed>], index: usize) -> bool {
    matches!(objects.get(index), Some(Some(hashed)) if hashed.mapping.is_some())
}
