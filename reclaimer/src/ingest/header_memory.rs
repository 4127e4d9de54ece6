//! Memory for headers of files, whose sizes clients choose.
//!
//! A header is charged before it is read, with all memory that it becomes: its text, the tensors in it, their plan and their
//! manifest. Small ones share a budget by store, so that those of one store leave room for the others'. A large one waits until
//! it is the only one.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_service_kit::budget::{Budget, Charge};

/// Memory for each byte of a header at the peak of an ingest, in the worst case: the shortest entries that a file can have took
/// 95 MiB for a header of 6 MiB, with the buffers of the pipeline. `headers_of_many_files_at_once_stay_within_their_memory`
/// fails if it is much more.
const FACTOR: u64 = 16;
/// Longest header that shares the budget, in bytes: some 7,000 tensors.
const SMALL: u64 = 1 << 20;
/// Memory of small headers. With that of one large header, 16 MiB times [`FACTOR`], it is less than two thirds of the 512 MiB
/// that the daemon keeps for itself (`mount.reserve_bytes`).
const BUDGET: usize = 64 << 20;
/// Longest wait for memory. The client then loads into private memory.
const WAIT: Duration = Duration::from_mins(1);
/// Time between two signs of life.
const BEAT: Duration = Duration::from_millis(500);

/// Memory for the headers of all ingests.
#[derive(Debug)]
pub(super) struct HeaderMemory {
    small: Budget<u64>,
    /// True while a large header is in memory.
    large: Mutex<bool>,
    given_back: Condvar,
}

/// Memory of one header, until it is dropped.
#[derive(Debug)]
pub(super) struct AdmittedHeader<'a> {
    memory: &'a HeaderMemory,
    part: Option<Part>,
}

/// The memory that a header has.
#[derive(Debug)]
enum Part {
    /// That of the only large header.
    Large,
    /// A part of the budget of small ones.
    Small(#[expect(dead_code, reason = "dropping it gives it back")] Charge<u64>),
}

impl Default for HeaderMemory {
    fn default() -> Self {
        Self {
            small: Budget::new(BUDGET),
            large: Mutex::new(false),
            given_back: Condvar::new(),
        }
    }
}

impl HeaderMemory {
    /// Waits for memory for a header of `len` bytes of a file for `store`. `goes_on` is called from time to time; without an
    /// answer of true, or after [`WAIT`], there is none.
    pub(super) fn admit(
        &self,
        store: &str,
        len: u64,
        goes_on: impl Fn() -> bool,
    ) -> Option<AdmittedHeader<'_>> {
        let deadline = Instant::now() + WAIT;
        let mut large = self.lock();
        loop {
            if let Some(part) = self.try_admit(store, len, &mut large) {
                return Some(AdmittedHeader {
                    memory: self,
                    part: Some(part),
                });
            }
            if !goes_on() || Instant::now() >= deadline {
                return None;
            }
            let woken = self.given_back.wait_timeout(large, BEAT);
            large = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn try_admit(&self, store: &str, len: u64, large: &mut bool) -> Option<Part> {
        if len > SMALL {
            return (!std::mem::replace(large, true)).then_some(Part::Large);
        }
        let mut hasher = DefaultHasher::new();
        store.hash(&mut hasher);
        let bytes = usize::try_from(len.saturating_mul(FACTOR)).unwrap_or(usize::MAX);
        let charge = self.small.charge(hasher.finish(), bytes).ok()?;
        Some(Part::Small(charge))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AdmittedHeader<'_> {
    fn drop(&mut self) {
        let mut large = self.memory.lock();
        if matches!(self.part.take(), Some(Part::Large)) {
            *large = false;
        }
        self.memory.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_headers_come_one_at_a_time_and_small_ones_beside_them() {
        let memory = HeaderMemory::default();
        let ends = || false;
        let large = memory.admit("a", SMALL + 1, ends).unwrap();
        assert!(memory.admit("b", SMALL + 1, ends).is_none());
        let small = memory.admit("b", SMALL, ends).unwrap();
        drop(large);
        let large = memory.admit("b", SMALL + 1, ends).unwrap();
        drop(small);
        assert!(memory.admit("a", SMALL + 1, ends).is_none());
        drop(large);
    }

    #[test]
    fn small_headers_of_one_store_leave_memory_for_another() {
        let memory = HeaderMemory::default();
        let ends = || false;
        let mut admitted = Vec::new();
        while let Some(header) = memory.admit("a", SMALL, ends) {
            admitted.push(header);
        }
        assert_eq!(admitted.len(), 2, "half of 64 MiB, in parts of 16 MiB");
        assert!(memory.admit("b", SMALL, ends).is_some());
        admitted.clear();
        assert!(memory.admit("a", SMALL, ends).is_some());
    }

    #[test]
    fn a_header_waits_until_another_gives_its_memory_back() {
        let memory = HeaderMemory::default();
        let first = memory.admit("a", SMALL + 1, || false).unwrap();
        let (waits, waited) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let goes_on = || waits.send(()).is_ok();
                memory.admit("b", SMALL + 1, goes_on).is_some()
            });
            waited.recv().unwrap();
            drop(first);
            assert!(second.join().unwrap());
        });
    }
}
