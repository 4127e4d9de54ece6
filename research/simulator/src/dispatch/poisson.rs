//! Arrivals of a Poisson process, in integers.

use tetris_scaler_core::Rate;
use tetris_simulation::Rng;

/// Picoseconds in a microsecond.
const PS: u128 = 1_000_000;

/// Endless arrivals of a Poisson process.
///
/// Distances are exponential by von Neumann's method, which only compares random numbers ("Various
/// techniques used in connection with random digits", 1951): no logarithm, so they are the same on
/// every machine.
#[derive(Clone, Debug)]
pub(crate) struct Poisson {
    mean_ps: u128,
    at_ps: u128,
    rng: Rng,
}

impl Poisson {
    pub(crate) fn new(rate: Rate, rng: Rng) -> Self {
        Self {
            mean_ps: PS * 1_000_000_000_000 / u128::from(rate.micro_rps().max(1)),
            at_ps: 0,
            rng,
        }
    }

    /// Time of the last arrival, in microseconds.
    pub(crate) fn at_us(&self) -> u64 {
        u64::try_from(self.at_ps / PS).unwrap_or(u64::MAX)
    }

    /// Returns an exponential number with mean 1, in 2^-32.
    fn exponential(&mut self) -> u128 {
        let mut whole = 0;
        loop {
            let first = self.rng.next_u64();
            let (mut last, mut falling) = (first, 1_u64);
            loop {
                let next = self.rng.next_u64();
                if next >= last {
                    break;
                }
                last = next;
                falling += 1;
            }
            if falling % 2 == 1 {
                return (whole << 32) + u128::from(first >> 32);
            }
            whole += 1;
        }
    }
}

impl Iterator for Poisson {
    /// Time of a request, in microseconds.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let distance = self.exponential();
        self.at_ps += (self.mean_ps * distance) >> 32;
        u64::try_from(self.at_ps / PS).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_the_mean_the_variance_and_the_median_of_an_exponential_distribution() {
        let mut arrivals = Poisson::new(Rate::from_rps(1_000), Rng::new(1, 0));
        let count = 200_000_u32;
        let distances: Vec<u128> = (0..count).map(|_| arrivals.exponential()).collect();
        let unit = (1_u64 << 32) as f64;
        let values = || distances.iter().map(|&entry| entry as f64 / unit);
        let mean = values().sum::<f64>() / f64::from(count);
        let variance = values().map(|entry| (entry - mean).powi(2)).sum::<f64>() / f64::from(count);
        let below = values()
            .filter(|&entry| entry < std::f64::consts::LN_2)
            .count();
        // Five standard deviations and more.
        assert!((mean - 1.0).abs() < 0.012, "{mean}");
        assert!((variance - 1.0).abs() < 0.035, "{variance}");
        assert!(below.abs_diff(100_000) < 1_200, "{below}");
        let last = arrivals.nth(99_999).unwrap();
        assert!((98_000_000..102_000_000).contains(&last), "{last}");
    }
}
