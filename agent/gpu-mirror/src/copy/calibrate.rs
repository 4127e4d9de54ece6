//! Calibration of the group size.

/// Throughput of copies of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Length of each copy, in bytes.
    pub group_bytes: u64,
    /// Throughput in bytes per second, with several copies in flight.
    pub bytes_per_second: u64,
}

/// Returns the elbow in bytes: the smallest size within `slack_percent` of the best throughput, at
/// which "the improvement becomes marginal" (Torpor 4.3). Larger groups would only make consumers
/// wait. Of several samples of one size the fastest counts, because disturbances only slow a
/// measurement. `None` without samples.
pub fn elbow(samples: &[Sample], slack_percent: u64) -> Option<u64> {
    let best = samples.iter().map(|sample| sample.bytes_per_second).max()?;
    let share = 100u64.saturating_sub(slack_percent);
    let reaches = |sample: &&Sample| {
        u128::from(sample.bytes_per_second) * 100 >= u128::from(best) * u128::from(share)
    };
    let sizes = samples.iter().filter(reaches);
    sizes.map(|sample| sample.group_bytes).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(points: &[(u64, u64)]) -> Vec<Sample> {
        let sample = |&(group_bytes, bytes_per_second)| Sample {
            group_bytes,
            bytes_per_second,
        };
        points.iter().map(sample).collect()
    }

    #[test]
    fn the_elbow_is_where_throughput_stops_to_grow() {
        // Each copy costs 10 microseconds, plus a nanosecond for every 25 bytes.
        let point = |size: u64| (size, size * 1_000_000_000 / (10_000 + size / 25));
        let sizes: Vec<_> = (16..27).map(|power| point(1 << power)).collect();
        assert_eq!(elbow(&samples(&sizes), 5), Some(8 << 20));
        assert_eq!(elbow(&samples(&sizes), 12), Some(2 << 20));
    }

    #[test]
    fn noise_below_the_best_does_not_matter() {
        let noisy = [(1, 10), (2, 96), (2, 60), (4, 80), (8, 100), (16, 97)];
        assert_eq!(elbow(&samples(&noisy), 5), Some(2));
    }

    #[test]
    fn ends_are_fine() {
        assert_eq!(elbow(&[], 5), None);
        assert_eq!(elbow(&samples(&[(4, 0)]), 5), Some(4));
        assert_eq!(
            elbow(&samples(&[(4, u64::MAX), (2, u64::MAX - 1)]), 0),
            Some(4)
        );
        assert_eq!(elbow(&samples(&[(4, 9), (2, 1)]), 1000), Some(2));
    }
}
