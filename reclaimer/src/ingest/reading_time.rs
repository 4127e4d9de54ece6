//! Time that files of each store were read for lately.
//!
//! Turns share the threads out, and no more: a store whose clients always have files to read would have as much of the
//! processors as one with a small file now and then. The files of a store that had much of them lately are read at a
//! lower priority, which costs it nothing while no other store has files.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::priority::yield_to_others;

/// Time after which half of what a store had is forgotten.
const HALF_LIFE: Duration = Duration::from_secs(2);
/// Time from which a store's files yield to others: a sixth of a thread, used all the time.
const MUCH: Duration = Duration::from_millis(500);
/// Time that is as good as none.
const NOTHING: Duration = Duration::from_millis(1);

/// Recent reading times of all stores.
#[derive(Debug, Default)]
pub(super) struct ReadingTimes(Mutex<HashMap<String, Recent>>);

/// Reading time of a store, as of a moment.
#[derive(Debug, Clone, Copy)]
struct Recent {
    time: Duration,
    at: Instant,
}

impl Recent {
    fn decayed(self, now: Instant) -> Duration {
        let half_lives = now.duration_since(self.at).div_duration_f64(HALF_LIFE);
        self.time.mul_f64((-half_lives).exp2())
    }
}

impl ReadingTimes {
    /// Reads a file of `store` in this thread, which has no other use: at a lower priority if it is the store's turn to
    /// yield.
    pub(super) fn measured<T>(&self, store: &str, read: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        if self.are_long(store, begun) {
            yield_to_others();
        }
        let outcome = read();
        let now = Instant::now();
        self.add(store, now - begun, now);
        outcome
    }

    /// Returns true if the files of `store` were read for so long that they yield to those of others.
    fn are_long(&self, store: &str, now: Instant) -> bool {
        let recent = self.locked().get(store).copied();
        recent.is_some_and(|recent| recent.decayed(now) >= MUCH)
    }

    /// Adds the time for which a file of `store` was read until `now`.
    fn add(&self, store: &str, time: Duration, now: Instant) {
        let mut stores = self.locked();
        // Stores come and go.
        stores.retain(|_, recent| recent.decayed(now) >= NOTHING);
        let before = stores.get(store).map(|recent| recent.decayed(now));
        let time = before.unwrap_or_default() + time;
        stores.insert(store.to_owned(), Recent { time, at: now });
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Recent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::YIELDING;

    #[test]
    fn a_store_yields_after_much_reading_until_it_rests_and_no_other_does() {
        let (times, begin) = (ReadingTimes::default(), Instant::now());
        times.add("busy", MUCH / 2, begin);
        assert!(!times.are_long("busy", begin));
        times.add("busy", MUCH, begin);
        assert!(times.are_long("busy", begin));
        assert!(!times.are_long("other", begin));
        assert!(!times.are_long("busy", begin + HALF_LIFE));
    }

    #[test]
    fn a_file_of_a_busy_store_is_read_at_a_lower_priority() {
        let times = ReadingTimes::default();
        times.add("busy", MUCH * 2, Instant::now());
        let read = || {
            let thread = rustix::thread::gettid();
            rustix::process::getpriority_process(Some(thread)).unwrap()
        };
        let priorities = ["other", "busy"].map(|store| {
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| times.measured(store, read));
                reader.join().unwrap()
            })
        });
        let usual = read();
        assert_eq!(priorities, [usual, YIELDING.max(usual)]);
    }

    #[test]
    fn a_small_file_now_and_then_never_adds_up() {
        let times = ReadingTimes::default();
        let mut now = Instant::now();
        for _ in 0..1000 {
            times.add("small", Duration::from_millis(50), now);
            now += Duration::from_secs(1);
            assert!(!times.are_long("small", now));
        }
    }

    #[test]
    fn stores_that_read_nothing_any_more_are_forgotten() {
        let (times, begin) = (ReadingTimes::default(), Instant::now());
        for store in 0..100 {
            times.add(&store.to_string(), MUCH, begin);
        }
        times.add("late", MUCH, begin + HALF_LIFE * 20);
        assert_eq!(times.locked().len(), 1);
    }
}
