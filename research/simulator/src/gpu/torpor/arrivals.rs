//! Arrivals of requests: those of the authors' sender, and a Poisson process for each function.

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_simulation::Rng;

use crate::dispatch::poisson::Poisson;

use super::rates::FunctionRate;

/// Microseconds in a minute.
const MINUTE_US: u64 = 60_000_000;

/// Kind of arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Those of the authors' sender. In each minute it sends as many requests as the functions' rates
    /// have together. The times between them are Poisson numbers of milliseconds with the mean time
    /// as their mean, so they are nearly regular. The function of each request is drawn in proportion to the rates.
    Authors,
    /// A Poisson process for each function: exponential times between its requests.
    PoissonProcess,
}

impl Arrivals {
    /// Name in reports and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Authors => "authors",
            Self::PoissonProcess => "poisson-process",
        }
    }

    /// Times of requests below `seconds`, in microseconds, with their functions, in their order.
    pub(super) fn requests(
        self,
        rates: &[FunctionRate],
        seconds: u64,
        seed: u64,
    ) -> Vec<(u64, u32)> {
        let end_us = seconds * 1_000_000;
        match self {
            Self::Authors => authors(rates, end_us, seed),
            Self::PoissonProcess => poisson_process(rates, end_us, seed),
        }
    }
}

fn poisson_process(rates: &[FunctionRate], end_us: u64, seed: u64) -> Vec<(u64, u32)> {
    let mut all: Vec<(u64, u32)> = Vec::new();
    for (function, rate) in (0..).zip(rates) {
        let rng = Rng::new(seed, 1_000 + u64::from(function));
        let rate = Rate::from_micro_rps(rate.mean() * 1_000_000 / 6_000);
        let arrivals = Poisson::new(rate, rng).take_while(|&at_us| at_us < end_us);
        all.extend(arrivals.map(|at_us| (at_us, function)));
    }
    all.sort_unstable();
    all
}

fn authors(rates: &[FunctionRate], end_us: u64, seed: u64) -> Vec<(u64, u32)> {
    let mut rng = Rng::new(seed, 73);
    let mut numbers = PoissonNumbers::new(Rng::new(seed, 74));
    let mut all = Vec::new();
    let mut at_us = 0;
    for minute in 0..end_us.div_ceil(MINUTE_US) {
        let mut sum = 0;
        let sums: Vec<u64> = rates
            .iter()
            .map(|rate| {
                sum += rate.in_minute(minute, &mut numbers);
                sum
            })
            .collect();
        let count = sum / 100;
        if count == 0 {
            at_us += MINUTE_US;
        }
        for _ in 0..count {
            at_us += 1_000 * numbers.draw(MINUTE_US / count);
            let drawn = rng.below(sum);
            let function = sums.partition_point(|&upto| upto <= drawn);
            all.push((at_us, function as u32));
        }
    }
    all.retain(|&(at_us, _)| at_us < end_us);
    all
}

/// Random numbers of a Poisson distribution, exact but for the rounding of times to microseconds:
/// the arrivals of a Poisson process in an interval.
pub(super) struct PoissonNumbers(Poisson);

/// Mean time between arrivals of the counted process, in microseconds.
const UNIT_US: u64 = 1_000_000_000;

impl PoissonNumbers {
    pub(super) fn new(rng: Rng) -> Self {
        Self(Poisson::new(
            Rate::from_micro_rps(1_000_000 * 1_000_000 / UNIT_US),
            rng,
        ))
    }

    /// Draws a number whose mean is `mean_milli` thousandths.
    pub(super) fn draw(&mut self, mean_milli: u64) -> u64 {
        // The process goes on from an arrival, after which it is as at its start.
        let end_us = self.0.at_us() + mean_milli * (UNIT_US / 1_000);
        self.0.by_ref().take_while(|&at_us| at_us < end_us).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rates;
    use super::*;

    fn mean_and_variance(values: &[u64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<u64>() as f64 / count;
        let squares = values.iter().map(|&value| (value as f64 - mean).powi(2));
        (mean, squares.sum::<f64>() / count)
    }

    fn gaps_us(kind: Arrivals, rates: &[FunctionRate]) -> Vec<u64> {
        let arrivals = kind.requests(rates, 1_200, 1);
        let gap = |pair: &[(u64, u32)]| pair[1].0 - pair[0].0;
        arrivals.windows(2).map(gap).collect()
    }

    #[test]
    fn poisson_numbers_have_their_mean_as_mean_and_as_variance_and_the_right_part_of_zeros() {
        let mut numbers = PoissonNumbers::new(Rng::new(1, 0));
        for mean in [500, 3_000, 28_571] {
            let drawn: Vec<u64> = (0..40_000).map(|_| numbers.draw(mean)).collect();
            let (of, variance) = mean_and_variance(&drawn);
            let expected = mean as f64 / 1e3;
            // Five standard deviations and more.
            let tolerance = 5.0 * (expected / 40_000.0).sqrt();
            assert!((of - expected).abs() < tolerance, "{mean}: {of}");
            assert!(
                (variance / expected - 1.0).abs() < 0.06,
                "{mean}: {variance}"
            );
            let zeros = drawn.iter().filter(|&&number| number == 0).count() as f64 / 40_000.0;
            assert!((zeros - (-expected).exp()).abs() < 0.013, "{mean}: {zeros}");
        }
        assert_eq!(numbers.draw(0), 0);
    }

    #[test]
    fn the_authors_times_between_requests_are_nearly_regular_and_exponential_ones_are_not() {
        // 210 functions with 10 requests a minute: 28.57 ms between requests.
        let rates = Rates::Fixed(10).of(210, 1);
        let [authors, exponential] =
            [Arrivals::Authors, Arrivals::PoissonProcess].map(|kind| gaps_us(kind, &rates));
        for (gaps, relative) in [(&authors, 0.187), (&exponential, 1.0)] {
            let (mean, variance) = mean_and_variance(gaps);
            assert!((28_000.0..29_200.0).contains(&mean), "{mean}");
            let deviation = variance.sqrt() / mean;
            assert!((deviation - relative).abs() < 0.03, "{deviation}");
        }
        assert!(authors.iter().all(|gap| gap % 1_000 == 0));
    }

    #[test]
    fn functions_have_requests_in_proportion_to_their_rates() {
        let rates = Rates::PaperPattern.of(40, 1);
        let sum: u64 = rates.iter().map(FunctionRate::mean).sum();
        for kind in [Arrivals::Authors, Arrivals::PoissonProcess] {
            let arrivals = kind.requests(&rates, 600, 3);
            assert!(arrivals.is_sorted_by_key(|&(at_us, _)| at_us));
            let expected = sum / 10;
            assert!(
                (arrivals.len() as u64).abs_diff(expected) < expected / 50,
                "{} of {expected}",
                arrivals.len()
            );
            let (most, rate) = (0..)
                .zip(&rates)
                .max_by_key(|(_, rate)| rate.mean())
                .unwrap();
            let of_most = arrivals.iter().filter(|&&(_, function)| function == most);
            let expected = rate.mean() / 10;
            assert!(
                (of_most.count() as u64).abs_diff(expected) < expected / 10,
                "{expected}"
            );
        }
    }
}
