//! Observed latency of an instance beside its profile.

/// Part of each observation in the mean: one in eight.
const SHIFT: u32 = 3;
/// Thousandths: an instance as fast as profiled.
const AS_PROFILED: u64 = 1_000;
/// Largest slowdown that counts: above, more requests would not show a recovery.
const MOST: u64 = 64 * AS_PROFILED;

/// Moving mean of the observed latency over the expected one, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowdown(u64);

impl Slowdown {
    pub(crate) const NONE: Self = Self(AS_PROFILED);

    /// Adds an observation.
    pub(crate) fn observe(&mut self, took_us: u64, expected_us: u64) {
        let permille =
            u128::from(took_us) * u128::from(AS_PROFILED) / u128::from(expected_us.max(1));
        let permille = u64::try_from(permille).unwrap_or(MOST).min(MOST);
        self.0 = self
            .0
            .saturating_sub(self.0 >> SHIFT)
            .saturating_add(permille >> SHIFT);
    }

    /// Factor by which the instance is slower than profiled, in thousandths, at least 1,000. A faster
    /// one gets no more than its profile states: its latency at low load says little about its capacity.
    pub(crate) fn permille(self) -> u64 {
        self.0.max(AS_PROFILED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_instance_is_known_after_a_few_requests_and_recovers() {
        let mut slowdown = Slowdown::NONE;
        for _ in 0..30 {
            slowdown.observe(1_000, 100);
        }
        assert!(
            (9_500..=10_000).contains(&slowdown.permille()),
            "{slowdown:?}"
        );
        for _ in 0..40 {
            slowdown.observe(100, 100);
        }
        assert!(slowdown.permille() < 1_100, "{slowdown:?}");
        for _ in 0..40 {
            slowdown.observe(1, 100);
        }
        assert_eq!(slowdown.permille(), 1_000, "never faster than profiled");
        slowdown.observe(u64::MAX, 0);
        assert!(slowdown.permille() <= MOST);
    }
}
