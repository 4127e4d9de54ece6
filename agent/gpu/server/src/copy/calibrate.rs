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

/// Throughput that smaller groups may cost, in percent. The requirement on copies is 95 % of the
/// pinned rate, so most of that is left for everything else.
const SLACK_PERCENT: u64 = 2;

/// Rate of a fast link in bytes per second: above that of 16 lanes of PCIe 4, which have 31.5 GB/s
/// less the packets' headers.
const FAST: u64 = 32_000_000_000;

/// Minimum size on a fast link, in bytes. There a copy of 2 MiB takes less than 70 microseconds,
/// and the pauses between copies, which depend on the processor's load, count.
const LEAST_ON_FAST: u64 = 8 << 20;

/// Chooses the group size of transfers in bytes: the elbow, and on a fast link at least 8 MiB if that
/// was measured too. `None` without samples.
pub fn best_group_bytes(samples: &[Sample]) -> Option<u64> {
    let elbow = elbow(samples, SLACK_PERCENT)?;
    let is_fast = samples.iter().any(|sample| sample.bytes_per_second > FAST);
    let sizes = samples.iter().map(|sample| sample.group_bytes);
    let large = sizes.filter(|size| *size >= LEAST_ON_FAST).min();
    Some(
        large
            .filter(|_| is_fast)
            .map_or(elbow, |least| least.max(elbow)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requirement is 95 %, so a size that reaches 96 % alone is too small.
    #[test]
    fn the_group_size_costs_at_most_two_percent() {
        let rates = [(1, 95), (2, 97), (4, 98), (8, 100)];
        let samples = rates.map(|(mib, rate)| (mib << 20, rate));
        assert_eq!(best_group_bytes(&self::samples(&samples)), Some(4 << 20));
        assert_eq!(best_group_bytes(&[]), None);
    }

    #[test]
    fn groups_on_a_fast_link_have_at_least_8_mib() {
        let best = |rate: u64, sizes: &[u64]| {
            let points: Vec<_> = sizes.iter().map(|mib| (mib << 20, rate)).collect();
            best_group_bytes(&samples(&points))
        };
        let (pcie_4, pcie_5) = (26_000_000_000, 55_000_000_000);
        assert_eq!(best(pcie_5, &[2, 4, 8, 16]), Some(8 << 20));
        assert_eq!(best(pcie_4, &[2, 4, 8, 16]), Some(2 << 20));
        assert_eq!(best(pcie_5, &[2, 4]), Some(2 << 20));
        let late = [(2 << 20, 1), (8 << 20, 50_000_000_000), (16 << 20, pcie_5)];
        assert_eq!(
            best_group_bytes(&samples(&late)),
            Some(16 << 20),
            "the elbow is larger"
        );
    }

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
