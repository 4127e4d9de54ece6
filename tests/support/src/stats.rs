//! Median, 95th percentile and extremes of samples.

use serde::{Deserialize, Serialize};

/// Summary of a set of samples. Every value has the unit of the samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// Minimum of the samples.
    pub min: f64,
    /// Median of the samples.
    pub median: f64,
    /// 95th percentile by the nearest-rank rule: always a measured value.
    pub p95: f64,
    /// Maximum of the samples.
    pub max: f64,
}

impl Summary {
    /// Summarizes the samples; `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples);
        Some(Self {
            count: sorted.len(),
            min: *sorted.first()?,
            median: median_of_sorted(&sorted)?,
            p95: percentile_of_sorted(&sorted, 95.0)?,
            max: *sorted.last()?,
        })
    }
}

/// Median of the samples, in any order.
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples))
}

/// The nearest-rank percentile (0 < `percent` <= 100) of the samples, in any order.
pub fn percentile(samples: &[f64], percent: f64) -> Option<f64> {
    percentile_of_sorted(&sorted(samples), percent)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle - 1)?, upper))
}

fn percentile_of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn p95_is_a_measured_sample() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 95.0), Some(95.0));
        assert_eq!(percentile(&hundred, 100.0), Some(100.0));
        assert_eq!(percentile(&[5.0, 9.0], 95.0), Some(9.0));
        assert_eq!(percentile(&[5.0], 95.0), Some(5.0));
        assert_eq!(percentile(&[], 95.0), None);
    }

    #[test]
    fn summary_orders_its_values() {
        let summary = Summary::of(&[4.0, 2.0, 8.0]).unwrap();
        assert_eq!(
            (summary.min, summary.median, summary.p95, summary.max),
            (2.0, 4.0, 8.0, 8.0)
        );
        assert_eq!(summary.count, 3);
        assert_eq!(Summary::of(&[]), None);
    }
}
