//! Statistics of samples.

/// Median of samples; `None` without samples.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, upper))
}

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
    fn the_median_of_odd_even_and_no_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn one_outlier_moves_an_extreme_and_not_the_median() {
        let samples = [1.0, 1.1, 0.9, 1.0, 90.0];
        assert_eq!(median(&samples), Some(1.0));
        assert_eq!(extremes(&samples), Some((0.9, 90.0)));
        assert_eq!(extremes(&[]), None);
    }
}
