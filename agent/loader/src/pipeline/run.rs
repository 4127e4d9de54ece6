//! The run of a pipeline: a first guess, one sweep by guesses, and one that publishes the rest.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use rand::seq::SliceRandom;
use tetris_store_layout::{ObjectRef, PublishError, PublishOutcome, SEGMENT_BYTES, Store};

use super::hashed::HashedObject;
use super::inputs::Pipeline;
use super::tally::Tally;
use super::worker::SweepState;
use crate::error::{LoadError, LoadFailure};
use crate::map_limit::GIVE_BACK;
use crate::threads;

/// The result of a pipeline.
#[derive(Debug, Default)]
pub struct PipelineRun {
    /// One per job, in order.
    pub objects: Vec<HashedObject>,
    /// Bytes read from the model file.
    pub bytes_read: u64,
    /// The first error with which the store did not take an object, if there is one.
    pub refused: Option<PublishError>,
    /// True if the process has reached its limit of mappings: no thread can be started safely.
    pub at_map_limit: bool,
}

impl PipelineRun {
    /// The objects, in the order of the jobs.
    pub fn refs(&self) -> Vec<ObjectRef> {
        self.objects.iter().map(|hashed| hashed.object).collect()
    }
}

impl Pipeline<'_> {
    /// Hashes all jobs, and publishes or finds their objects if there is a store.
    ///
    /// # Errors
    /// When the file cannot be read. An object that the store does not take is no error.
    pub fn run(&self) -> Result<PipelineRun, LoadFailure> {
        let tally = Tally::default();
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.shuffle(&mut rand::rng());
        let mut objects: Vec<Option<HashedObject>> = Vec::new();
        objects.resize_with(self.jobs.len(), || None);

        // The first guess: the shortest object is a cheap sample of the others.
        let mut expect_hit = self.store.is_none();
        let len_of = |&index: &usize| self.jobs.get(index).map_or(0, |job| job.len);
        let sample = order.iter().copied().min_by_key(len_of);
        if let (Some(store), Some(index), false) = (self.store, sample, self.known_missing)
            && let Some(place) = objects.get_mut(index)
        {
            *place = self.sample(store, index, &tally)?;
            let existing = |hashed: &HashedObject| {
                matches!(hashed.mapping, Some((_, PublishOutcome::Existing)))
            };
            expect_hit = place.as_ref().is_some_and(existing);
        }
        order.retain(|&index| !is_hit(&objects, index));
        self.sweep(&order, expect_hit, false, &tally, &mut objects)?;
        if let Some(store) = self.store.filter(|store| store.is_writable()) {
            order.retain(|&index| !is_hit(&objects, index));
            self.sweep(&order, false, true, &tally, &mut objects)?;
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
        Ok(PipelineRun {
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
    ) -> Result<Option<HashedObject>, LoadFailure> {
        let Some(job) = self.jobs.get(index).filter(|job| job.len <= SEGMENT_BYTES) else {
            return Ok(None);
        };
        let mut bytes = self.buffer(job.len)?;
        job.read(self.source, 0, bytes.as_mut_slice())?;
        let Ok(published) = store.publish(bytes.as_slice(), self.access) else {
            return Ok(None);
        };
        tally.bytes_read.fetch_add(job.len, Ordering::Relaxed);
        Ok(Some(HashedObject {
            object: published.object,
            mapping: Some((published.mapping, published.outcome)),
        }))
    }

    /// Maps objects that others have published meanwhile, where there was no room for them.
    fn look_again(&self, store: &Store, tally: &Tally, objects: &mut [Option<HashedObject>]) {
        for hashed in objects.iter_mut().flatten() {
            if hashed.mapping.is_none()
                && !tally.limit.is_met()
                && let Ok(Some(mapping)) = store.map(&hashed.object, self.access)
            {
                hashed.mapping = Some((mapping, PublishOutcome::Existing));
            }
        }
    }

    /// An object without a result: a bug, and better an error than tensors in the wrong places.
    fn unfinished(&self) -> LoadError {
        let error = std::io::Error::other("an object was not hashed (this is a bug)");
        LoadError::io("hash", self.source.path(), error)
    }

    /// Works through the jobs of `order`.
    fn sweep(
        &self,
        order: &[usize],
        expect_hit: bool,
        stage_all: bool,
        tally: &Tally,
        objects: &mut [Option<HashedObject>],
    ) -> Result<(), LoadFailure> {
        if order.is_empty() {
            return Ok(());
        }
        let state = SweepState::new(self, order, expect_hit, stage_all, tally);
        threads::run(self.threads.min(state.task_count()), || state.work())?;
        for (hashed, object) in state.into_hashed().zip(objects) {
            if hashed.is_some() {
                *object = hashed;
            }
        }
        Ok(())
    }
}

/// Returns true if the object is mapped.
fn is_hit(objects: &[Option<HashedObject>], index: usize) -> bool {
    matches!(objects.get(index), Some(Some(hashed)) if hashed.mapping.is_some())
}
