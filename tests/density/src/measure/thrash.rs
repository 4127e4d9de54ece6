//! Thrashing: a group that spends its time rereading pages.

use crate::error::Result;
use crate::process::handle::Worker;
use tetris_test_support::stats::median;

/// Multiple of the pass time of an instance alone above which a group is thrashing.
pub const SLOWEST: f64 = 3.0;
/// Pass time below which noise hides a slowdown, in nanoseconds.
const SHORTEST_NS: f64 = 20e6;
/// Number of rounds of passes before a group counts as thrashing.
const ROUNDS: u32 = 3;
/// Number of passes for the pass time alone.
const ALONE_PASSES: u32 = 3;

/// Pass time of an instance without others.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick {
    /// Pass time of the measured instance, in nanoseconds.
    pub alone_ns: f64,
    ns_per_byte: f64,
}

impl Yardstick {
    /// Measures an instance without others that has loaded `bytes`.
    pub fn of(worker: &mut Worker, bytes: u64) -> Result<Self> {
        let (times, _) = worker.pass(ALONE_PASSES)?;
        let times: Vec<f64> = times.into_iter().map(|time| time as f64).collect();
        let alone_ns = median(&times).unwrap_or(0.0);
        Ok(Self {
            alone_ns,
            ns_per_byte: alone_ns / bytes.max(1) as f64,
        })
    }

    /// Returns the ratio of the slowest instance's pass time with others to its time alone; `None`
    /// if no instance exceeds [`SLOWEST`]. `bytes` are the lengths of the workers' models, in
    /// order.
    ///
    /// Every round is a pass of all instances, because their pages compete. The best time of each
    /// instance counts: a thrashing group is slow in every round, but an instance that another
    /// program disturbed is not.
    pub fn slowdown(self, workers: &mut [Worker], bytes: &[u64]) -> Result<Option<f64>> {
        let mut best = vec![f64::INFINITY; workers.len()];
        for _ in 0..ROUNDS {
            for (worker, best) in workers.iter_mut().zip(&mut best) {
                let (times, _) = worker.pass(1)?;
                *best = times
                    .into_iter()
                    .fold(*best, |best, time| best.min(time as f64));
            }
            if self.worst(&best, bytes).is_none() {
                return Ok(None);
            }
        }
        Ok(self.worst(&best, bytes))
    }

    /// The largest ratio to the time alone among those above the limit.
    fn worst(self, times_ns: &[f64], bytes: &[u64]) -> Option<f64> {
        let ratios = times_ns.iter().zip(bytes).filter_map(|(&time, &bytes)| {
            let ratio = time / (self.ns_per_byte * bytes as f64);
            (time > SHORTEST_NS && ratio > SLOWEST).then_some(ratio)
        });
        ratios.reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_judged_by_their_size() {
        let yardstick = Yardstick {
            alone_ns: 20e6,
            ns_per_byte: 0.2,
        };
        let bytes = [100_000_000, 400_000_000];
        assert_eq!(yardstick.worst(&[25e6, 90e6], &bytes), None);
        assert_eq!(yardstick.worst(&[90e6, 90e6], &bytes), Some(4.5));
        // Too short to judge.
        assert_eq!(yardstick.worst(&[19e6], &[1_000]), None);
    }
}
