//! The limit of a pull's rate.

use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Bytes that may come at once, as a time at the limit's rate.
const BURST: Duration = Duration::from_millis(100);

/// A limit of bytes per second, which all connections share.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: NonZeroU64,
    /// The moment at which all bytes so far are paid for.
    paid: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(rate: NonZeroU64) -> Self {
        Self {
            rate,
            paid: Mutex::new(None),
        }
    }

    /// Waits until `bytes` more are within the limit.
    pub(crate) async fn pay(&self, bytes: usize) {
        let due = self.due(bytes, Instant::now());
        tokio::time::sleep_until(due).await;
    }

    fn due(&self, bytes: usize, now: Instant) -> Instant {
        let cost = Duration::from_secs_f64(bytes as f64 / self.rate.get() as f64);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = paid
            .unwrap_or(now)
            .max(now.checked_sub(BURST).unwrap_or(now));
        let end = begin + cost;
        *paid = Some(end);
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_connections_are_within_the_rate() {
        let pace = Pace::new(NonZeroU64::new(1000).unwrap());
        let begin = Instant::now();
        let mut due = begin;
        for _ in 0..10 {
            due = pace.due(500, begin);
        }
        assert!(due - begin >= Duration::from_millis(4_900));
        assert!(due - begin <= Duration::from_secs(5));
        // A pause is not saved up for.
        let later = begin + Duration::from_mins(1);
        assert!(pace.due(500, later) >= later + Duration::from_millis(400));
    }
}
