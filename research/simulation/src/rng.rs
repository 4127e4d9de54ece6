//! Reproducible random numbers, independent of other crates.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
///
/// Integers are the same on every machine. Floating-point numbers may differ in the last place where logarithms do.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator; `stream` separates the uses of one seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        rng.next_u64();
        rng
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns an integer below `bound`, or 0 if that is 0. The distribution is off by at most
    /// `bound / 2^64` from uniform.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an integer from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let width = high.saturating_sub(low).saturating_add(1);
        low.saturating_add(self.below(width))
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from `low` up to, but not including, `high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Returns a number from `low` to `high`, uniform in its logarithm.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        self.uniform(low.ln(), high.ln()).exp()
    }

    /// Returns the time to the next event of a Poisson process with mean distance `mean`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns an index into `len` elements, or 0 if there are none.
    pub fn index(&mut self, len: usize) -> usize {
        (self.unit() * len as f64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_the_paper() {
        let mut rng = Rng(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn ranges_hold() {
        let mut rng = Rng::new(1, 2);
        for _ in 0..10_000 {
            assert!((2.0..3.0).contains(&rng.uniform(2.0, 3.0)));
            assert!(rng.index(7) < 7);
            assert!(rng.exponential(5.0) >= 0.0);
        }
        assert_eq!(rng.index(0), 0);
    }

    #[test]
    fn ranges_of_integers_hold_and_are_reached() {
        let mut rng = Rng::new(1, 2);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..4_000 {
            let number = rng.between(3, 6);
            assert!((3..=6).contains(&number));
            *seen.entry(number).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 4);
        assert!(
            seen.values().all(|count| (900..1_100).contains(count)),
            "{seen:?}"
        );
        assert_eq!(rng.below(0), 0);
    }
}
