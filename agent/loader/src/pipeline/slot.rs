//! The state of one object in a sweep, shared by the threads that work on its segments.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_store_layout::{SegmentDigest, Staging};

use super::hashed::HashedObject;

/// An object of a sweep.
#[derive(Default)]
pub(crate) struct Slot<'a> {
    state: Mutex<SlotState<'a>>,
}

/// The state of an object. It only moves downwards in this list.
#[derive(Default)]
enum SlotState<'a> {
    /// No thread has taken a segment.
    #[default]
    Waiting,
    /// Threads hash the segments and write them.
    Staging(Arc<Staging<'a>>, Digests),
    /// Threads hash the segments, so that the object can be looked up. Also the state of an object
    /// whose staging failed.
    Hashing(Digests),
    /// All segments are done.
    Done(HashedObject),
    /// The sweep does not give a result for this object.
    Skipped,
}

/// Digests of the segments that are done.
struct Digests {
    segments: Vec<Option<SegmentDigest>>,
    /// Number of segments that are not done.
    left: u64,
}

/// Work on a segment.
pub(crate) enum SegmentWork<'a> {
    /// None: the object has been hashed before and cannot be staged.
    Skip,
    /// Hash it, to see if the object is in the store.
    Hash,
    /// Hash and write it.
    Stage(Arc<Staging<'a>>),
}

impl Digests {
    fn of(segments: u64) -> Self {
        Self {
            segments: vec![None; segments as usize],
            left: segments,
        }
    }

    /// Keeps the digest of a segment; returns true with the last one.
    fn keep(&mut self, segment: u64, digest: SegmentDigest) -> bool {
        if let Some(place) = self.segments.get_mut(segment as usize) {
            *place = Some(digest);
        }
        self.left -= 1;
        self.left == 0
    }
}

impl<'a> Slot<'a> {
    /// Work on a segment of this object, which has `segments`. The first segment decides for all:
    /// `decide` runs once.
    pub(crate) fn begin(
        &self,
        segments: u64,
        decide: impl FnOnce() -> SegmentWork<'a>,
    ) -> SegmentWork<'a> {
        let mut state = self.lock();
        if matches!(*state, SlotState::Waiting) {
            *state = match decide() {
                SegmentWork::Skip => SlotState::Skipped,
                SegmentWork::Hash => SlotState::Hashing(Digests::of(segments)),
                SegmentWork::Stage(staging) => SlotState::Staging(staging, Digests::of(segments)),
            };
        }
        match &*state {
            SlotState::Staging(staging, _) => SegmentWork::Stage(Arc::clone(staging)),
            SlotState::Hashing(_) => SegmentWork::Hash,
            SlotState::Waiting | SlotState::Done(_) | SlotState::Skipped => SegmentWork::Skip,
        }
    }

    /// Gives up the staged object, which could not be written.
    pub(crate) fn stop_staging(&self) {
        let mut state = self.lock();
        *state = match std::mem::take(&mut *state) {
            SlotState::Staging(_, digests) => SlotState::Hashing(digests),
            other => other,
        };
    }

    /// Keeps a segment's digest. With the last one, `conclude` gets all of them and the staged object,
    /// if there is one, and makes the result.
    pub(crate) fn end(
        &self,
        segment: u64,
        digest: SegmentDigest,
        staging: Option<Arc<Staging<'a>>>,
        conclude: impl FnOnce(&[SegmentDigest], Option<Staging<'a>>) -> Option<HashedObject>,
    ) {
        let mut state = self.lock();
        // Before the count goes down: the thread that ends the last segment owns the staged object.
        drop(staging);
        let is_last = match &mut *state {
            SlotState::Staging(_, digests) | SlotState::Hashing(digests) => {
                digests.keep(segment, digest)
            }
            SlotState::Waiting | SlotState::Done(_) | SlotState::Skipped => false,
        };
        if !is_last {
            return;
        }
        let (staging, digests) = match std::mem::take(&mut *state) {
            SlotState::Staging(staging, digests) => (Arc::into_inner(staging), digests),
            SlotState::Hashing(digests) => (None, digests),
            SlotState::Waiting | SlotState::Done(_) | SlotState::Skipped => return,
        };
        let digests: Vec<_> = digests.segments.into_iter().flatten().collect();
        *state = conclude(&digests, staging).map_or(SlotState::Skipped, SlotState::Done);
    }

    /// Unmaps the object; returns true if it was mapped. A slot that is busy has nothing to give yet.
    pub(crate) fn give_back(&self) -> bool {
        match self.state.try_lock().as_deref_mut() {
            Ok(SlotState::Done(hashed)) => hashed.mapping.take().is_some(),
            _ => false,
        }
    }

    /// The result, if the sweep gave one.
    pub(crate) fn into_hashed(self) -> Option<HashedObject> {
        match self.state.into_inner() {
            Ok(SlotState::Done(hashed)) => Some(hashed),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
