//! Estimates that follow measured values and ignore outliers.

use std::collections::VecDeque;

/// Number of samples of which the median counts: an odd number, so that it is a sample.
const WINDOW: usize = 15;
/// Deviation of the median from the estimate at which the estimate follows, in percent. Smaller
/// ones would copy and drop the same objects again and again.
const DRIFT_PERCENT: u64 = 5;

/// The median of the last samples, which moves only when it has drifted.
#[derive(Debug, Clone, Default)]
pub struct Estimate {
    samples: VecDeque<u64>,
    value: Option<u64>,
}

impl Estimate {
    /// The estimate; `None` before the first sample.
    pub fn value(&self) -> Option<u64> {
        self.value
    }

    /// Adds a sample. Returns true if the estimate has changed.
    pub fn add(&mut self, sample: u64) -> bool {
        if self.samples.len() == WINDOW {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let mut sorted: Vec<_> = self.samples.iter().copied().collect();
        sorted.sort_unstable();
        // Of an even number the lower one: too little bandwidth keeps too much, which is late for
        // no one.
        let Some(median) = sorted.get((sorted.len() - 1) / 2).copied() else {
            return false;
        };
        let drifted = self.value.is_none_or(|value| {
            let off = u128::from(median.abs_diff(value)) * 100;
            off > u128::from(value) * u128::from(DRIFT_PERCENT)
        });
        if drifted {
            self.value = Some(median);
        }
        drifted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_single_outlier_changes_nothing_and_a_lasting_drift_is_followed() {
        let mut estimate = Estimate::default();
        assert!(estimate.add(1000));
        for _ in 0..20 {
            assert!(!estimate.add(1010));
        }
        assert!(!estimate.add(50));
        assert_eq!(estimate.value(), Some(1000));
        let changes = (0..WINDOW).filter(|_| estimate.add(2000)).count();
        assert_eq!((changes, estimate.value()), (1, Some(2000)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// The estimate is within the drift of the median of the window, and is a sample.
        #[test]
        fn an_estimate_follows_the_median(samples in prop::collection::vec(0u64..1 << 40, 1..60)) {
            let mut estimate = Estimate::default();
            for (end, sample) in (1usize..).zip(&samples) {
                let before = estimate.value();
                let changed = estimate.add(*sample);
                prop_assert_eq!(changed, before != estimate.value());
                let mut window = samples[end.saturating_sub(WINDOW)..end].to_vec();
                window.sort_unstable();
                let median = window[(window.len() - 1) / 2];
                let value = estimate.value().unwrap();
                prop_assert!(median.abs_diff(value) * 100 <= value * DRIFT_PERCENT);
                prop_assert!(samples[..end].contains(&value));
            }
        }
    }
}
