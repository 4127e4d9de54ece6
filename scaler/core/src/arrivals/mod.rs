//! Requests that arrived within the last seconds, and the load that follows from them.

mod load;

use std::collections::VecDeque;

use crate::rate::Rate;

pub use load::{Backlog, LOAD_MEAN_MS};

/// Arrivals of one function, by all gateways together, of the last `kept_ms` milliseconds.
///
/// The requests between two answers of a gateway count as spread evenly over the time between them, so that a
/// gateway that answers late adds no peak.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals {
    spans: VecDeque<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from_ms: u64,
    to_ms: u64,
    count: u64,
}

impl Arrivals {
    /// Adds `count` requests that arrived from `from_ms` to `to_ms`, and forgets those that ended
    /// `kept_ms` before.
    pub fn add(&mut self, from_ms: u64, to_ms: u64, count: u64, kept_ms: u64) {
        self.forget(to_ms, kept_ms);
        if count > 0 {
            // An answer within the millisecond of the last one has a length all the same.
            let from_ms = from_ms.min(to_ms.saturating_sub(1));
            self.spans.push_back(Span {
                from_ms,
                to_ms,
                count,
            });
        }
    }

    /// Forgets requests that arrived more than `kept_ms` before `now_ms`. Returns true if none are left.
    pub fn forget(&mut self, now_ms: u64, kept_ms: u64) -> bool {
        let first_ms = now_ms.saturating_sub(kept_ms);
        self.spans.retain(|span| span.to_ms > first_ms);
        self.spans.is_empty()
    }

    /// Returns the mean rate of the last `length_ms` milliseconds before `now_ms`.
    pub fn rate(&self, now_ms: u64, length_ms: u64) -> Rate {
        let length_ms = length_ms.max(1);
        let first_ms = now_ms.saturating_sub(length_ms);
        let within = self.spans.iter().map(|span| {
            let (from_ms, to_ms) = (span.from_ms.max(first_ms), span.to_ms.min(now_ms));
            let all_ms = span.to_ms.saturating_sub(span.from_ms).max(1);
            let part_ms = to_ms.saturating_sub(from_ms);
            // Thousandths of a request.
            (u128::from(span.count) * 1_000 * u128::from(part_ms)).div_ceil(u128::from(all_ms))
        });
        let milli: u128 = within.sum();
        // Thousandths per millisecond are requests per second.
        let micro = (milli * 1_000_000).div_ceil(u128::from(length_ms));
        Rate::from_micro_rps(u64::try_from(micro).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT_MS: u64 = 10_000;

    #[test]
    fn requests_between_two_answers_are_spread_over_the_time_between_them() {
        let mut arrivals = Arrivals::default();
        arrivals.add(0, 20_000, 200, KEPT_MS);
        assert_eq!(arrivals.rate(20_000, 10_000), Rate::from_rps(10));
        assert_eq!(arrivals.rate(20_000, 2_000), Rate::from_rps(10));
        assert_eq!(arrivals.rate(25_000, 10_000), Rate::from_rps(5));
        arrivals.add(20_000, 25_000, 50, KEPT_MS);
        assert_eq!(arrivals.rate(25_000, 10_000), Rate::from_rps(10));
    }

    #[test]
    fn one_request_counts_until_it_is_too_old() {
        let mut arrivals = Arrivals::default();
        arrivals.add(1_000, 1_000, 1, KEPT_MS);
        assert_eq!(arrivals.rate(1_000, 10_000), Rate::from_milli_rps(100));
        assert!(!arrivals.forget(10_999, KEPT_MS));
        assert_eq!(arrivals.rate(11_000, 10_000), Rate::ZERO);
        assert!(arrivals.forget(11_000, KEPT_MS));
    }

    #[test]
    fn memory_is_bounded_by_the_time_that_is_kept() {
        let mut arrivals = Arrivals::default();
        for at_ms in (250..1_000_000).step_by(250) {
            arrivals.add(at_ms - 250, at_ms, 1, KEPT_MS);
        }
        assert_eq!(arrivals.spans.len(), 40);
        assert_eq!(arrivals.rate(999_750, 10_000), Rate::from_rps(4));
    }
}
