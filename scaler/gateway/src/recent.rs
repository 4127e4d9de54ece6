//! Arrivals of a function, and its latencies of the last minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Time of one part of the last minute.
const PART: Duration = Duration::from_secs(10);
/// Parts that latencies are kept for.
const PARTS: usize = 6;
/// Upper bound of the first latency bucket, and the ratio of one bound to the next.
const FIRST_MS: f64 = 0.1;
const RATIO: f64 = 1.1;
/// The last bound is above an hour.
const BUCKETS: usize = 192;

/// Percentiles of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Latency {
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
}

/// Arrivals of one function, and latencies of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    requests: u64,
    parts: VecDeque<Part>,
}

#[derive(Debug)]
struct Part {
    since: Instant,
    buckets: Vec<u32>,
}

impl Recent {
    /// Number of admitted requests.
    pub(crate) const fn requests(&self) -> u64 {
        self.requests
    }

    /// Counts an admitted request.
    pub(crate) fn arrived(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// Counts a latency.
    pub(crate) fn served(&mut self, latency: Duration, now: Instant) {
        self.forget(now);
        if self
            .parts
            .back()
            .is_none_or(|part| now.duration_since(part.since) >= PART)
        {
            self.parts.push_back(Part {
                since: now,
                buckets: vec![0; BUCKETS],
            });
        }
        let ms = latency.as_secs_f64() * 1_000.0;
        let bucket = ((ms / FIRST_MS).ln() / RATIO.ln()).ceil().max(0.0) as usize;
        let buckets = self.parts.back_mut().map(|part| &mut part.buckets);
        let count = buckets.and_then(|buckets| buckets.get_mut(bucket.min(BUCKETS - 1)));
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
    }

    fn forget(&mut self, now: Instant) {
        let old = |part: &Part| now.duration_since(part.since) >= PART * PARTS as u32;
        while self.parts.front().is_some_and(old) {
            self.parts.pop_front();
        }
    }

    /// Percentiles of the last minute, each at most a tenth too high.
    pub(crate) fn latency(&mut self, now: Instant) -> Option<Latency> {
        self.forget(now);
        let mut all = vec![0_u64; BUCKETS];
        for part in &self.parts {
            for (sum, &count) in all.iter_mut().zip(&part.buckets) {
                *sum = sum.saturating_add(count.into());
            }
        }
        let total: u64 = all.iter().sum();
        let at = |percent: u64| {
            let rank = (total * percent).div_ceil(100);
            let mut seen = 0;
            let bucket = all.iter().position(|&count| {
                seen += count;
                seen >= rank
            });
            FIRST_MS * RATIO.powf(bucket.unwrap_or(BUCKETS - 1) as f64)
        };
        (total > 0).then(|| Latency {
            p50_ms: at(50),
            p95_ms: at(95),
            p99_ms: at(99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_last_minute() {
        let mut of = Recent::default();
        let begin = Instant::now();
        for ms in 1..=100 {
            of.served(Duration::from_millis(ms), begin);
        }
        let latency = of.latency(begin).unwrap();
        for (latency, exact) in [
            (latency.p50_ms, 50.0),
            (latency.p95_ms, 95.0),
            (latency.p99_ms, 99.0),
        ] {
            assert!(
                (exact..=exact * RATIO).contains(&latency),
                "{latency} for {exact}"
            );
        }
        of.served(Duration::from_millis(7), begin + PART * 3);
        let later = of.latency(begin + PART * 7).unwrap();
        assert!((7.0..7.71).contains(&later.p50_ms), "{later:?}");
        assert_eq!(of.latency(begin + PART * 20), None);
    }

    #[test]
    fn the_shortest_and_the_longest_latency_have_a_bucket() {
        let mut of = Recent::default();
        let now = Instant::now();
        of.served(Duration::ZERO, now);
        assert!(of.latency(now).unwrap().p50_ms <= FIRST_MS);
        let mut of = Recent::default();
        of.served(Duration::from_secs(1 << 40), now);
        assert!(of.latency(now).unwrap().p50_ms > 3_600_000.0);
    }
}
