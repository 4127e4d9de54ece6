//! The rule of progress for every place where a peer paces us: no progress, no hold.
//!
//! A peer has a credit of time. It shrinks while we wait for the peer, and grows with the bytes that move, by a least rate, up
//! to the grace. When it is used up, the exchange is overdue, and whatever it holds is given back. So a peer at or above the
//! least rate is never cut off, a silent one after the grace, and one that trickles after little more.

use std::time::{Duration, Instant};

/// A least rate, and the time that a peer may fall behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Longest time that a peer may be behind the rate.
    pub grace: Duration,
    /// Least rate, in bytes per second. With 0 no number of bytes makes up for time.
    pub bytes_per_second: u64,
}

impl Pace {
    /// Longest time in which a peer that is never overdue moves `bytes`.
    pub fn longest(&self, bytes: usize) -> Duration {
        self.grace.saturating_add(self.credit(bytes))
    }

    /// Credit for `bytes` that moved.
    fn credit(&self, bytes: usize) -> Duration {
        let nanos = u128::from(bytes as u64)
            .saturating_mul(1_000_000_000)
            .checked_div(u128::from(self.bytes_per_second));
        nanos.map_or(Duration::ZERO, |nanos| {
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}

/// The state of one exchange with a peer.
#[derive(Clone, Debug)]
pub struct Progress {
    pace: Pace,
    credit: Duration,
    /// Start of the current wait for the peer.
    since: Option<Instant>,
}

impl Progress {
    /// Begins an exchange with the whole grace as credit. Nothing is waited for yet.
    pub const fn new(pace: Pace) -> Self {
        Self {
            credit: pace.grace,
            pace,
            since: None,
        }
    }

    /// Begins to wait for the peer, or goes on with it. Returns the time at which the exchange is overdue.
    pub fn waits(&mut self, now: Instant) -> Instant {
        let since = *self.since.get_or_insert(now);
        // A credit beyond the clock's end is never used up in practice.
        since
            .checked_add(self.credit)
            .unwrap_or_else(|| now + Duration::from_hours(24 * 365))
    }

    /// The peer moved `bytes`; nothing is waited for now.
    pub fn moved(&mut self, now: Instant, bytes: usize) {
        let earned = self.pace.credit(bytes);
        self.pauses(now);
        self.credit = self.credit.saturating_add(earned).min(self.pace.grace);
    }

    /// Ends a wait without progress: we are not waiting for the peer at the moment.
    pub fn pauses(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            let waited = now.saturating_duration_since(since);
            self.credit = self.credit.saturating_sub(waited);
        }
    }

    /// Time of a wait's end, if there is one.
    pub fn overdue_at(&self) -> Option<Instant> {
        self.since?.checked_add(self.credit)
    }

    /// Returns true if the peer has used up its credit.
    pub fn is_overdue(&self, now: Instant) -> bool {
        self.overdue_at().is_some_and(|end| now >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        grace: Duration::from_secs(10),
        bytes_per_second: 1_000,
    };

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_silent_peer_is_overdue_after_the_grace() {
        let start = Instant::now();
        let mut progress = Progress::new(PACE);
        assert!(
            !progress.is_overdue(after(start, 60_000)),
            "nothing is waited for"
        );
        assert_eq!(progress.waits(start), after(start, 10_000));
        assert!(!progress.is_overdue(after(start, 9_999)));
        assert!(progress.is_overdue(after(start, 10_000)));
        assert_eq!(progress.waits(after(start, 5_000)), after(start, 10_000));
    }

    #[test]
    fn the_longest_time_is_the_grace_and_that_of_the_least_rate() {
        assert_eq!(PACE.longest(5_000), Duration::from_secs(15));
        let silent = Pace {
            bytes_per_second: 0,
            ..PACE
        };
        assert_eq!(silent.longest(5_000), PACE.grace);
    }

    #[test]
    fn a_peer_that_trickles_is_overdue_little_later() {
        let start = Instant::now();
        let mut progress = Progress::new(PACE);
        let mut now = start;
        let mut rounds = 0;
        loop {
            let end = progress.waits(now);
            now += Duration::from_secs(3);
            if now >= end {
                assert!(progress.is_overdue(now));
                break;
            }
            progress.moved(now, 1);
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }

    #[test]
    fn a_peer_at_the_rate_is_never_overdue_and_saves_no_more_than_the_grace() {
        let mut now = Instant::now();
        let mut progress = Progress::new(PACE);
        for _ in 0..1_000 {
            let end = progress.waits(now);
            now += Duration::from_secs(9);
            assert!(now < end);
            progress.moved(now, 9_000);
        }
        progress.moved(now, usize::MAX);
        assert_eq!(progress.waits(now), now + PACE.grace);
    }

    #[test]
    fn time_in_which_we_do_not_wait_does_not_count() {
        let start = Instant::now();
        let mut progress = Progress::new(PACE);
        progress.waits(start);
        progress.pauses(after(start, 4_000));
        assert_eq!(progress.overdue_at(), None);
        assert_eq!(progress.waits(after(start, 100_000)), after(start, 106_000));
    }

    #[test]
    fn without_a_rate_bytes_earn_nothing() {
        let start = Instant::now();
        let mut progress = Progress::new(Pace {
            bytes_per_second: 0,
            ..PACE
        });
        progress.waits(start);
        progress.moved(after(start, 1_000), 1 << 30);
        assert_eq!(progress.waits(after(start, 1_000)), after(start, 10_000));
    }
}
