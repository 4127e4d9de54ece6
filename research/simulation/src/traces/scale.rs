//! Scaling of requests by a factor.

use crate::Rng;

/// Random numbers of a scaled trace are independent of those of others.
const STREAM: u64 = 1 << 42;

/// Factor of the number of requests: a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    numerator: u64,
    /// Not zero.
    denominator: u64,
}

impl Factor {
    /// Factor that changes nothing.
    pub const ONE: Self = Self {
        numerator: 1,
        denominator: 1,
    };

    /// Returns the factor that makes `requests` requests a mean of `micro_rps` millionths of a request per second over
    /// `seconds` seconds; zero if there are none.
    pub fn to_mean(requests: u64, micro_rps: u64, seconds: u64) -> Self {
        if requests == 0 {
            return Self {
                numerator: 0,
                denominator: 1,
            };
        }
        Self {
            numerator: micro_rps.saturating_mul(seconds),
            denominator: requests.saturating_mul(1_000_000),
        }
    }

    /// Returns the counter of a series of requests, with a random start: of many rare functions a part keeps its
    /// requests, not all or none.
    pub(super) fn counter(self, rng: &mut Rng) -> Counter {
        Counter {
            factor: self,
            rest: u128::from(rng.below(self.denominator)),
        }
    }
}

/// Counter that multiplies numbers of requests one after the other without an error in their sum.
#[derive(Debug, Clone)]
pub(super) struct Counter {
    factor: Factor,
    rest: u128,
}

impl Counter {
    /// Returns the number of requests in place of the next `count`.
    pub(super) fn scale(&mut self, count: u64) -> u64 {
        let denominator = u128::from(self.factor.denominator);
        self.rest += u128::from(count) * u128::from(self.factor.numerator);
        let copies = self.rest / denominator;
        self.rest %= denominator;
        u64::try_from(copies).unwrap_or(u64::MAX)
    }
}

/// Iterator over the times of requests, scaled in number.
///
/// With a factor below one, some of the requests remain, at their times. With a larger one, further requests are
/// spread evenly up to the next time, over a minute of the file at most.
#[derive(Debug, Clone)]
pub struct ScaledTimes {
    /// Sorted times, in microseconds.
    times: Vec<u64>,
    /// End of the run, in microseconds.
    end_us: u64,
    most_gap_us: u64,
    counter: Counter,
    /// Place of the next time.
    next: usize,
    group: Group,
}

/// Requests at one time.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    first: usize,
    at_us: u64,
    /// Time over which they are spread, in microseconds.
    gap_us: u64,
    count: u64,
    copies: u64,
    done: u64,
}

/// A request of a scaled series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScaledTime {
    /// Time, in microseconds.
    pub at_us: u64,
    /// Place of the request that it is, or copies.
    pub source: usize,
}

impl ScaledTimes {
    /// Creates the iterator over the sorted `times`, in microseconds, of a run that ends at `end_us`. `most_gap_us` is
    /// a minute of the file in the run. `stream` separates series of one seed.
    pub fn new(
        times: Vec<u64>,
        factor: Factor,
        (end_us, most_gap_us): (u64, u64),
        seed: u64,
        stream: u64,
    ) -> Self {
        let mut rng = Rng::new(seed, STREAM + stream);
        Self {
            times,
            end_us,
            most_gap_us,
            counter: factor.counter(&mut rng),
            next: 0,
            group: Group::default(),
        }
    }

    /// Returns the next time with its requests.
    fn next_group(&mut self) -> Option<Group> {
        let first = self.next;
        let rest = self.times.get(first..)?;
        let at_us = *rest.first()?;
        let count = rest.iter().take_while(|&&time| time == at_us).count();
        let next_us = rest.get(count).copied().unwrap_or(self.end_us);
        self.next += count;
        let copies = self.counter.scale(count as u64);
        let gap_us = next_us.saturating_sub(at_us).min(self.most_gap_us);
        Some(Group {
            first,
            at_us,
            gap_us: if copies > count as u64 { gap_us } else { 0 },
            count: count as u64,
            copies,
            done: 0,
        })
    }
}

impl Iterator for ScaledTimes {
    type Item = ScaledTime;

    fn next(&mut self) -> Option<ScaledTime> {
        while self.group.done == self.group.copies {
            self.group = self.next_group()?;
        }
        let group = &mut self.group;
        let part = |whole: u64| {
            (u128::from(whole) * u128::from(group.done) / u128::from(group.copies)) as u64
        };
        let (later_us, place) = (part(group.gap_us), part(group.count) as usize);
        group.done += 1;
        Some(ScaledTime {
            at_us: group.at_us + later_us,
            source: group.first + place,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_US: u64 = 100_000_000;
    const MINUTE_US: u64 = 60_000_000;

    fn scaled(times: &[u64], factor: Factor, seed: u64) -> Vec<u64> {
        let scaled = ScaledTimes::new(times.to_vec(), factor, (END_US, MINUTE_US), seed, 0);
        scaled.map(|time| time.at_us).collect()
    }

    #[test]
    fn a_factor_of_one_keeps_all_times_and_sources() {
        let times = [0, 5, 5, 90_000_000];
        assert_eq!(scaled(&times, Factor::ONE, 1), times);
        let all = ScaledTimes::new(times.to_vec(), Factor::ONE, (END_US, MINUTE_US), 1, 0);
        let sources: Vec<usize> = all.map(|time| time.source).collect();
        assert_eq!(sources, [0, 1, 2, 3]);
    }

    #[test]
    fn copies_are_spread_up_to_the_next_time_and_over_a_minute_at_most() {
        // Two requests in 100 s become six.
        let factor = Factor::to_mean(2, 60_000, 100);
        let times = scaled(&[0, 9_000_000], factor, 1);
        let expected = [0, 3_000_000, 6_000_000, 9_000_000, 29_000_000, 49_000_000];
        assert_eq!(times, expected);
    }

    #[test]
    fn the_mean_is_the_asked_one_up_to_a_request() {
        let times: Vec<u64> = (0..1_000).map(|number| number * 100_000).collect();
        for (micro_rps, expected) in [(1_000_000, 100), (3_330_000, 333), (25_000_000, 2_500)] {
            for seed in 0..20 {
                let factor = Factor::to_mean(1_000, micro_rps, 100);
                let count = scaled(&times, factor, seed).len() as u64;
                assert!(count.abs_diff(expected) <= 1, "{count} {expected}");
            }
        }
        let none = Factor::to_mean(0, 1_000_000, 100);
        assert!(scaled(&times, none, 1).is_empty() && scaled(&[], Factor::ONE, 1).is_empty());
    }
}
