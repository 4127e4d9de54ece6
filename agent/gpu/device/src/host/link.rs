//! The simulated device's link: bandwidth and costs on demand.

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Costs of copies to the simulated device. By default they cost nothing but the host's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCosts {
    /// Bytes per second of all copies together; 0: no limit.
    pub bytes_per_sec: u64,
    /// Time that each copy takes in addition.
    pub each: Duration,
}

/// The link of a device, which one copy uses at a time.
#[derive(Debug)]
pub(super) struct Link {
    costs: LinkCosts,
    /// End of the last copy.
    free: Mutex<Option<Instant>>,
}

impl Link {
    pub fn new(costs: LinkCosts) -> Self {
        Self {
            costs,
            free: Mutex::new(None),
        }
    }

    /// Takes the time of a copy. A thread that comes late by less than this time does not lose it:
    /// the link was free, and the copy would have begun earlier.
    pub fn take(&self, bytes: usize) {
        let LinkCosts {
            bytes_per_sec,
            each,
        } = self.costs;
        if bytes_per_sec == 0 && each.is_zero() {
            return;
        }
        let moving = (bytes as u64).saturating_mul(1_000_000_000) / bytes_per_sec.max(1);
        let time = if bytes_per_sec == 0 {
            each
        } else {
            each + Duration::from_nanos(moving)
        };
        let end = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begin = match *free {
                Some(free) if free + Duration::from_millis(2) > now => free,
                _ => now,
            };
            let end = begin + time;
            *free = Some(end);
            end
        };
        sleep(end.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_the_time_of_their_bytes_one_after_the_other() {
        let link = Link::new(LinkCosts {
            bytes_per_sec: 100_000_000,
            each: Duration::from_micros(10),
        });
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..10).for_each(|_| link.take(100_000)));
            }
        });
        // 20 copies of 1 ms and 10 microseconds.
        assert!(begin.elapsed() >= Duration::from_micros(20_200));
        let begin = Instant::now();
        Link::new(LinkCosts::default()).take(usize::MAX);
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
}
