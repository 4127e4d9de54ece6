//! What a policy did.

use serde::Serialize;

/// Mean, median and peak of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Samples {
    /// Rounded down.
    pub mean: u64,
    /// The lower one of two.
    pub median: u64,
    /// The largest.
    pub peak: u64,
}

impl Samples {
    /// Of `samples`, in any order; zero of none.
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

/// What a policy did with a scenario. All but the times of decisions follow from the seed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Requests for applications.
    pub requests: u64,
    /// Requests that took longer than the objectives of their functions together, or were not served.
    pub violations: u64,
    /// Times that a request found no ready instance with room.
    pub waited: u64,
    /// Memory of instances and of tensors, all nodes together, in bytes.
    pub memory_bytes: Samples,
    /// CPU of instances, in millicores.
    pub cpu_millis: Samples,
    /// Instances.
    pub instances: Samples,
    /// Instances that were started.
    pub starts: u64,
    /// Instances that had to load tensors: cold starts.
    pub cold_starts: u64,
    /// What they loaded, in bytes.
    pub loaded_bytes: u64,
    /// Instances for which there was no room, each time that they were wanted.
    pub unplaced: u64,
    /// How long the scaler took each time that something had to be started, in microseconds, by the clock that was given.
    pub decision_us: Samples,
    /// How often that was.
    pub decisions: u64,
}

impl Outcome {
    /// Violations per thousand requests.
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
