//! Whether a group works on or only reads its pages again and again.

use crate::error::Result;
use crate::process::handle::Worker;
use crate::stats::median;

/// Above this multiple of the pass time of an instance alone, the group is thrashing.
pub const SLOWEST: f64 = 3.0;
/// Passes shorter than this are not told apart from noise, in nanoseconds.
const SHORTEST_NS: f64 = 20e6;
/// Rounds of passes before a group is said to be thrashing.
const ROUNDS: u32 = 3;
/// Passes that decide how long one takes alone.
const ALONE_PASSES: u32 = 3;

/// How long a pass takes an instance that has the machine for itself.
#[derive(Clone, Copy, Debug)]
pub struct Yardstick {
    /// Pass of the instance that was timed, in nanoseconds.
    pub alone_ns: f64,
    ns_per_byte: f64,
}

impl Yardstick {
    /// Times an instance that is alone and has loaded so many bytes.
    pub fn of(worker: &mut Worker, bytes: u64) -> Result<Self> {
        let (times, _) = worker.pass(ALONE_PASSES)?;
        let times: Vec<f64> = times.into_iter().map(|time| time as f64).collect();
        let alone_ns = median(&times).unwrap_or(0.0);
        Ok(Self {
            alone_ns,
            ns_per_byte: alone_ns / bytes.max(1) as f64,
        })
    }

    /// How many times longer than alone the slowest instance takes when all make passes; `None` when
    /// none takes more than [`SLOWEST`] times as long. `bytes` are what the workers loaded, in order.
    ///
    /// Every round is a pass of all, because their pages press on each other, and each instance is
    /// taken at its best: a thrashing group is slow in every round, an instance that something else on
    /// the machine held up is not.
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
        // Too short to tell.
        assert_eq!(yardstick.worst(&[19e6], &[1_000]), None);
    }
}
