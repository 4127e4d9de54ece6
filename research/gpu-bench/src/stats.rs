//! Statistics of samples.

pub(crate) use tetris_test_support::stats::median;

/// Minimum and maximum of samples; `None` without samples.
pub(crate) fn extremes(samples: &[f64]) -> Option<(f64, f64)> {
    let least = samples.iter().copied().min_by(f64::total_cmp)?;
    let most = samples.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_moves_an_extreme_and_not_the_median() {
        let samples = [1.0, 1.1, 0.9, 1.0, 90.0];
        assert_eq!(median(&samples), Some(1.0));
        assert_eq!(extremes(&samples), Some((0.9, 90.0)));
        assert_eq!(extremes(&[]), None);
    }
}
