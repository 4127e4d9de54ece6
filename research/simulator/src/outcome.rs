//! Results of a run.

use serde::Serialize;

/// Mean, median and peak of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// Mean, rounded down.
    pub mean: u64,
    /// Median; the lower one of an even number of samples.
    pub median: u64,
    /// Maximum.
    pub peak: u64,
}

impl Samples {
    /// Summarizes `samples`, in any order; zero without samples.
    pub fn of(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let count = samples.len() as u128;
        let sum: u128 = samples.iter().copied().map(u128::from).sum();
        let mean = sum.checked_div(count).unwrap_or(0);
        let middle = samples.len().saturating_sub(1) / 2;
        Self {
            mean: u64::try_from(mean).unwrap_or(u64::MAX),
            median: samples.get(middle).copied().unwrap_or(0),
            peak: samples.last().copied().unwrap_or(0),
        }
    }
}

/// Times that requests spend in queues, once for each function they go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueTimes {
    /// Number of requests that waited.
    pub waited: u64,
    /// Number of all requests.
    pub all: u64,
    /// Sum of their times, in microseconds.
    pub sum_us: u64,
    /// Longest time, in microseconds.
    pub most_us: u64,
}

impl QueueTimes {
    pub(crate) fn add(&mut self, queue_us: u64) {
        self.waited += u64::from(queue_us > 0);
        self.all += 1;
        self.sum_us = self.sum_us.saturating_add(queue_us);
        self.most_us = self.most_us.max(queue_us);
    }

    /// Mean time, in microseconds.
    pub const fn mean_us(&self) -> u64 {
        match self.sum_us.checked_div(self.all) {
            Some(mean_us) => mean_us,
            None => 0,
        }
    }
}

/// Batches that were executed where more than one request fits into a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BatchFill {
    /// Number of their requests.
    pub requests: u64,
    /// Number of requests that would have fitted into them.
    pub places: u64,
}

impl BatchFill {
    /// Counts a batch of `requests` on an instance with room for `batch` in one.
    pub(crate) fn add(&mut self, requests: usize, batch: u32) {
        if batch > 1 {
            self.requests += requests as u64;
            self.places += u64::from(batch);
        }
    }

    /// Share of the places taken, in thousandths; zero without batches.
    pub const fn permille(&self) -> u64 {
        match (self.requests * 1_000).checked_div(self.places) {
            Some(permille) => permille,
            None => 0,
        }
    }
}

/// Memory and CPU of all nodes over time: at most [`Series::POINTS`] points, each the maximum of
/// its span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Start of the first span, in seconds.
    pub first_s: u64,
    /// Length of a span, in seconds.
    pub step_s: u64,
    /// Memory of instances and of tensors, in bytes.
    pub memory_bytes: Vec<u64>,
    /// CPU of instances, in millicores.
    pub cpu_millis: Vec<u64>,
}

impl Series {
    /// Maximum number of points.
    pub const POINTS: usize = 240;

    /// Summarizes samples taken every `every_s` seconds, from `first_s` on.
    pub fn of(first_s: u64, every_s: u64, memory_bytes: &[u64], cpu_millis: &[u64]) -> Self {
        let count = memory_bytes.len().max(cpu_millis.len());
        let span = count.div_ceil(Self::POINTS).max(1);
        let largest = |samples: &[u64]| {
            let spans = samples.chunks(span);
            spans
                .filter_map(|span| span.iter().max().copied())
                .collect()
        };
        Self {
            first_s,
            step_s: every_s.saturating_mul(span as u64),
            memory_bytes: largest(memory_bytes),
            cpu_millis: largest(cpu_millis),
        }
    }
}

/// Results of a policy on a scenario. All but the times of decisions follow from the seed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunOutcome {
    /// Number of requests to applications.
    pub requests: u64,
    /// Number of requests that took longer than the sum of their functions' objectives, or were not
    /// served.
    pub violations: u64,
    /// Number of requests that found no ready instance with room.
    pub waited: u64,
    /// Times from a request's arrival at a function until a thread begins with it: behind other
    /// requests, for a batch to fill, or for an instance.
    pub queue: QueueTimes,
    /// Fill of the batches.
    pub fill: BatchFill,
    /// Memory of instances and of tensors, all nodes together, in bytes.
    pub memory_bytes: Samples,
    /// Size of files that the page caches have and no one maps, in bytes: free memory.
    pub cached_bytes: Samples,
    /// CPU of instances, in millicores.
    pub cpu_millis: Samples,
    /// Memory and CPU over time.
    pub series: Series,
    /// Number of instances.
    pub instances: Samples,
    /// Number of started instances.
    pub starts: u64,
    /// Number of cold starts: instances that had to read weights from the disk.
    pub cold_starts: u64,
    /// Size of the weights read from the disk, in bytes.
    pub loaded_bytes: u64,
    /// Size of the weights copied out of the page cache, in bytes.
    pub copied_bytes: u64,
    /// Number of instances without room, counted at each attempt.
    pub unplaced: u64,
    /// Duration of the scaler's decisions that had to start instances, in microseconds of the given
    /// clock.
    pub decision_us: Samples,
    /// Number of those decisions.
    pub decisions: u64,
}

impl RunOutcome {
    /// Number of violations per 100,000 requests.
    pub const fn late_per_100_000(&self) -> u64 {
        match (self.violations * 100_000).checked_div(self.requests) {
            Some(late) => late,
            None => 0,
        }
    }

    /// Number of violations per thousand requests.
    pub const fn violations_permille(&self) -> u64 {
        match (self.violations * 1_000).checked_div(self.requests) {
            Some(permille) => permille,
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_bounded_and_keeps_every_peak() {
        let mut samples = vec![1; 1_000];
        samples[777] = 9;
        let series = Series::of(60, 5, &samples, &samples[..7]);
        assert_eq!((series.first_s, series.step_s), (60, 25));
        assert_eq!(series.memory_bytes.len(), 200);
        assert_eq!(series.memory_bytes[155], 9);
        assert_eq!(series.cpu_millis, [1, 1]);
    }

    #[test]
    fn samples_are_summed_up() {
        let all = Samples::of(vec![9, 1, 3, 3]);
        assert_eq!(
            all,
            Samples {
                mean: 4,
                median: 3,
                peak: 9
            }
        );
        assert_eq!(Samples::of(vec![]), Samples::default());
        let large = Samples::of(vec![u64::MAX; 3]);
        assert_eq!(large.mean, u64::MAX);
    }
}
