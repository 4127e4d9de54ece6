//! Histogram of one model's idle times, and the keep-alive window learned from it (Shahrad et al.,
//! "Serverless in the Wild", USENIX ATC 2020, section 4.2).

use serde::{Deserialize, Serialize};

use crate::config::LearnedKeepAlive;

/// Number of bins of one minute each: four hours, as in the paper.
pub const BINS: u16 = 240;

const MS_PER_BIN: u64 = 60_000;
const SECS_PER_BIN: u64 = 60;

/// Number of idle periods by length in minutes. Periods of [`BINS`] minutes or more are out of
/// bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Packed", into = "Packed")]
pub struct Histogram {
    /// Counts by minute, up to the longest idle time so far: most models need a few bins.
    counts: Vec<u32>,
    out_of_bounds: u32,
}

/// A model's window, learned or standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Idle time before which the model is not expected, in seconds. The reclaimer frees nothing
    /// early because of it: only a load brings tensors back, so an early free turns a hit into a
    /// miss.
    pub pre_warm_secs: u64,
    /// Idle time after which the model is not expected, in seconds.
    pub keep_alive_secs: u64,
    /// Source of the window.
    pub basis: Basis,
}

/// Source of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The model's histogram.
    Learned,
    /// The standard window: there are too few idle times yet.
    TooFew,
    /// The standard window: most idle times are beyond the histogram's range. The paper forecasts
    /// these with ARIMA; for tensors of such a rare model, freeing is better.
    OutOfBounds,
    /// The standard window: idle times are spread too evenly for a meaningful percentile.
    NotRepresentative,
}

impl Histogram {
    /// Counts an idle period, in milliseconds.
    pub fn record(&mut self, idle_ms: u64) {
        let bin = idle_ms / MS_PER_BIN;
        if bin >= u64::from(BINS) {
            self.out_of_bounds = self.out_of_bounds.saturating_add(1);
            return;
        }
        let bin = bin as usize;
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bin) {
            *count = count.saturating_add(1);
        }
    }

    /// Number of idle periods within the range.
    pub fn in_bounds(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// Number of idle periods beyond the range.
    pub fn out_of_bounds(&self) -> u64 {
        u64::from(self.out_of_bounds)
    }

    /// Coefficient of variation of the counts of all [`BINS`] bins: 0 if idle times are spread
    /// evenly, 15.5 if all are in one bin.
    pub fn variation(&self) -> f64 {
        let total = self.in_bounds() as f64;
        if total == 0.0 {
            return 0.0;
        }
        let squares = |count: &u32| f64::from(*count) * f64::from(*count);
        let squares: f64 = self.counts.iter().map(squares).sum();
        // Variance over mean squared, with mean = total / BINS.
        (f64::from(BINS) * squares / (total * total) - 1.0)
            .max(0.0)
            .sqrt()
    }

    /// Returns the model's window under `rule`.
    pub fn window(&self, rule: &LearnedKeepAlive) -> Window {
        let in_bounds = self.in_bounds();
        let all = in_bounds + self.out_of_bounds();
        let standard = |basis| Window {
            pre_warm_secs: 0,
            keep_alive_secs: rule.standard_secs,
            basis,
        };
        if all < u64::from(rule.min_idle_periods) {
            return standard(Basis::TooFew);
        }
        if self.out_of_bounds() * 100 > all * u64::from(rule.out_of_bounds_percent) {
            return standard(Basis::OutOfBounds);
        }
        if self.variation() < rule.min_variation {
            return standard(Basis::NotRepresentative);
        }
        let margin = u64::from(rule.margin_percent);
        // The head rounds down to the start of its bin, the tail up to the end of its bin, as in
        // the paper.
        let head_secs = self.bin_at(rule.head_percent) * SECS_PER_BIN;
        let tail_secs = (self.bin_at(rule.tail_percent) + 1) * SECS_PER_BIN;
        Window {
            pre_warm_secs: head_secs * (100 - margin.min(100)) / 100,
            keep_alive_secs: tail_secs * (100 + margin) / 100,
            basis: Basis::Learned,
        }
    }

    /// Index of the bin that contains the percentile of the idle times within the range.
    fn bin_at(&self, percent: u32) -> u64 {
        let rank = (self.in_bounds() * u64::from(percent)).div_ceil(100).max(1);
        let mut below = 0;
        let counts = self.counts.iter().zip(0..);
        for (count, bin) in counts {
            below += u64::from(*count);
            if below >= rank {
                return bin;
            }
        }
        u64::from(BINS) - 1
    }
}

/// Serialized form of a histogram: only its non-empty bins.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    bins: Vec<(u16, u32)>,
    out_of_bounds: u32,
}

impl From<Histogram> for Packed {
    fn from(histogram: Histogram) -> Self {
        let counts = histogram.counts.into_iter().zip(0..);
        Self {
            bins: counts
                .filter(|(count, _)| *count > 0)
                .map(|(count, bin)| (bin, count))
                .collect(),
            out_of_bounds: histogram.out_of_bounds,
        }
    }
}

impl TryFrom<Packed> for Histogram {
    type Error = String;

    fn try_from(packed: Packed) -> Result<Self, Self::Error> {
        let mut histogram = Self {
            counts: Vec::new(),
            out_of_bounds: packed.out_of_bounds,
        };
        for (bin, count) in packed.bins {
            if bin >= BINS {
                return Err(format!("expected bins below {BINS}, found {bin}"));
            }
            let next = histogram.counts.len();
            if usize::from(bin) < next || count == 0 {
                return Err(format!(
                    "expected counts above 0 in rising bins, found {count} in {bin}"
                ));
            }
            histogram.counts.resize(usize::from(bin), 0);
            histogram.counts.push(count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: LearnedKeepAlive = LearnedKeepAlive::PAPER;

    fn of(minutes: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for minutes in minutes {
            histogram.record(minutes * MS_PER_BIN);
        }
        histogram
    }

    #[test]
    fn an_empty_histogram_keeps_the_standard_window() {
        let window = Histogram::default().window(&RULE);
        assert_eq!(window.basis, Basis::TooFew);
        assert_eq!(window.keep_alive_secs, RULE.standard_secs);
        assert_eq!(window.pre_warm_secs, 0);
        assert!(Histogram::default().variation().abs() < 1e-12);
    }

    #[test]
    fn a_steady_period_is_learned_with_its_margins() {
        let window = of(&[10; 20]).window(&RULE);
        assert_eq!(window.basis, Basis::Learned);
        assert_eq!(window.pre_warm_secs, 600 * 9 / 10);
        assert_eq!(window.keep_alive_secs, 660 * 11 / 10);
    }

    #[test]
    fn idle_times_below_a_minute_need_no_pre_warming() {
        let window = of(&[0; 20]).window(&RULE);
        assert_eq!((window.pre_warm_secs, window.keep_alive_secs), (0, 66));
    }

    #[test]
    fn the_last_bin_is_in_bounds_and_the_next_is_not() {
        let mut histogram = Histogram::default();
        histogram.record(u64::from(BINS) * MS_PER_BIN - 1);
        assert_eq!((histogram.in_bounds(), histogram.out_of_bounds()), (1, 0));
        histogram.record(u64::from(BINS) * MS_PER_BIN);
        histogram.record(u64::MAX);
        assert_eq!((histogram.in_bounds(), histogram.out_of_bounds()), (1, 2));
    }

    #[test]
    fn mostly_out_of_bounds_keeps_the_standard_window() {
        let mut histogram = of(&[5; 10]);
        (0..10).for_each(|_| histogram.record(u64::MAX));
        assert_eq!(histogram.window(&RULE).basis, Basis::Learned);
        histogram.record(u64::MAX);
        assert_eq!(histogram.window(&RULE).basis, Basis::OutOfBounds);
        let mut only = Histogram::default();
        (0..20).for_each(|_| only.record(u64::MAX));
        assert_eq!(only.window(&RULE).basis, Basis::OutOfBounds);
    }

    #[test]
    fn evenly_spread_idle_times_are_not_representative() {
        let even: Vec<u64> = (0..u64::from(BINS)).collect();
        assert!(of(&even).variation().abs() < 1e-9);
        assert_eq!(of(&even).window(&RULE).basis, Basis::NotRepresentative);
        assert!((of(&[7; 100]).variation() - 239f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn a_single_straggler_does_not_stretch_the_tail() {
        let mut minutes = vec![3; 200];
        minutes.push(200);
        let window = of(&minutes).window(&RULE);
        assert_eq!(window.keep_alive_secs, 240 * 11 / 10);
    }

    #[test]
    fn the_kept_form_is_checked() {
        let histogram = of(&[1, 1, 5, 239]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        for damaged in [
            r#"{"bins":[[240,1]],"out_of_bounds":0}"#,
            r#"{"bins":[[5,1],[5,1]],"out_of_bounds":0}"#,
            r#"{"bins":[[5,0]],"out_of_bounds":0}"#,
            r#"{"bins":[]}"#,
        ] {
            assert!(
                serde_json::from_str::<Histogram>(damaged).is_err(),
                "{damaged}"
            );
        }
    }
}
