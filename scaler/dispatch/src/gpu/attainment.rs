//! Required request count (Torpor 5.2): the requests that a function must serve in time before its
//! SLO holds.

use std::collections::BTreeMap;

/// Percentile of the SLO, in thousandths.
const PERCENTILE: i64 = 980;
/// Greatest threshold between functions of high and of low priority.
const MAX_THRESHOLD: i64 = 1_000;

/// Requests of each function, and those within their deadline.
///
/// **Reading.** The paper leaves the threshold to its technical report. Here it begins at its
/// greatest value, is halved by a late request of a function of high priority, and grows by one with
/// every request in time: the more the GPUs are overloaded, the fewer functions have high priority.
#[derive(Clone, Debug)]
pub(crate) struct Attainment {
    functions: BTreeMap<u32, (i64, i64)>,
    threshold: i64,
}

impl Default for Attainment {
    fn default() -> Self {
        Self {
            functions: BTreeMap::new(),
            threshold: MAX_THRESHOLD,
        }
    }
}

impl Attainment {
    /// Counts the end of a request.
    pub(crate) fn add(&mut self, function: u32, in_time: bool) {
        let was_low = self.is_low(function);
        let (all, served) = self.functions.entry(function).or_default();
        *all += 1;
        if in_time {
            *served += 1;
            self.threshold = (self.threshold + 1).min(MAX_THRESHOLD);
        } else if !was_low {
            self.threshold /= 2;
        }
    }

    /// Number of requests that the function must serve in time, `(pn - m) / (1 - p)`; negative if
    /// its SLO holds with some to spare.
    pub(crate) fn required(&self, function: u32) -> i64 {
        let (all, served) = self.functions.get(&function).copied().unwrap_or_default();
        (PERCENTILE * all - 1_000 * served) / (1_000 - PERCENTILE)
    }

    /// Returns true if the function waits behind those that are nearer to their SLO.
    pub(crate) fn is_low(&self, function: u32) -> bool {
        self.required(function) > self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_required_count_is_that_of_the_paper() {
        let mut functions = Attainment::default();
        assert_eq!(functions.required(1), 0);
        for number in 0..100 {
            functions.add(1, number >= 5);
        }
        // (0.98 * 100 - 95) / 0.02, and 95 + 150 of 100 + 150 are 98 %.
        assert_eq!(functions.required(1), 150);
        functions.add(2, true);
        assert_eq!(functions.required(2), -1);
    }

    #[test]
    fn late_requests_lower_the_threshold_and_functions_far_from_their_slo_wait() {
        let mut functions = Attainment::default();
        functions.add(1, false);
        assert!(!functions.is_low(1));
        for _ in 0..40 {
            functions.add(1, false);
        }
        assert!(functions.is_low(1) && !functions.is_low(2));
    }
}
