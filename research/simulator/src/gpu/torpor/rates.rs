//! Rates of functions: fixed ones, and those of the authors' files.

use serde::Serialize;
use tetris_simulation::Rng;

use super::arrivals::PoissonNumbers;

/// Mean rates of the functions in the authors' `samples.npy`, which figures 10 and 11 draw from: the
/// means of its twentieths, in hundredths of a request per minute.
const SAMPLES: [u64; 20] = [
    522, 561, 576, 588, 625, 684, 770, 865, 948, 978, 1_028, 1_101, 1_195, 1_230, 1_257, 1_276,
    1_293, 1_312, 1_336, 1_384,
];
/// Mean rate in each minute of that file, in hundredths. Its last minute is nearly empty.
const MINUTES: [u64; 31] = [
    1_288, 1_281, 1_305, 970, 780, 916, 850, 810, 833, 897, 977, 1_026, 1_000, 903, 789, 765, 929,
    1_024, 994, 1_017, 1_080, 1_046, 1_056, 1_195, 1_173, 1_128, 1_079, 1_094, 1_105, 1_009, 23,
];
/// Rates in the authors' `invoc_pattern.txt`, which figure 9 draws from, in the same form as
/// [`SAMPLES`].
const PATTERN: [u64; 20] = [
    100, 100, 101, 111, 128, 151, 185, 212, 264, 302, 361, 507, 709, 935, 1_027, 1_473, 2_201,
    2_868, 4_521, 7_188,
];
/// Mean rate of figure 9, in hundredths of a request per minute (7.2).
const FREQUENT: u64 = 20_000;

/// Rates of a node's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rates {
    /// The same for each, in requests per minute.
    Fixed(u64),
    /// Drawn from the authors' samples, with the course of their minutes.
    Samples,
    /// Drawn from the authors' pattern, scaled to a mean of 200 a minute.
    PaperPattern,
}

/// Rate of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FunctionRate {
    /// Mean, in hundredths of a request per minute.
    mean: u64,
    /// True if it follows the minutes of the samples.
    varies: bool,
}

impl Rates {
    /// Rates of `functions` functions.
    pub(super) fn of(self, functions: u32, seed: u64) -> Vec<FunctionRate> {
        let mut rng = Rng::new(seed, 75);
        let mut draw = |table: &[u64]| {
            let at = rng.below(table.len() as u64) as usize;
            table.get(at).copied().unwrap_or(0)
        };
        let drawn: Vec<u64> = (0..functions)
            .map(|_| match self {
                Self::Fixed(per_minute) => per_minute * 100,
                Self::Samples => draw(&SAMPLES),
                Self::PaperPattern => draw(&PATTERN),
            })
            .collect();
        let sum = drawn.iter().sum::<u64>().max(1);
        let rate = |mean| FunctionRate {
            mean: match self {
                Self::Fixed(_) | Self::Samples => mean,
                Self::PaperPattern => mean * FREQUENT * u64::from(functions) / sum,
            },
            varies: self == Self::Samples,
        };
        drawn.into_iter().map(rate).collect()
    }
}

impl FunctionRate {
    /// Mean of all minutes, in hundredths of a request per minute.
    pub(super) const fn mean(&self) -> u64 {
        self.mean
    }

    /// Rate in a minute, in hundredths of a request per minute. The samples are counts, so a rate
    /// that varies is a Poisson number about its mean in that minute.
    pub(super) fn in_minute(&self, minute: u64, numbers: &mut PoissonNumbers) -> u64 {
        if !self.varies {
            return self.mean;
        }
        let count = MINUTES.len() as u64;
        let of_minute = MINUTES.get((minute % count) as usize).copied().unwrap_or(0);
        let of_all = MINUTES.iter().sum::<u64>();
        100 * numbers.draw(10 * self.mean * of_minute * count / of_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_the_means_of_the_authors_files() {
        let mean = |rates: Rates, functions| {
            let all = rates.of(functions, 1);
            all.iter().map(FunctionRate::mean).sum::<u64>() / u64::from(functions)
        };
        assert_eq!(mean(Rates::Fixed(10), 7), 1_000);
        // 9.76 a minute, and 200 by the scale.
        assert!(mean(Rates::Samples, 4_000).abs_diff(976) < 25);
        assert!(mean(Rates::PaperPattern, 40).abs_diff(20_000) < 10);
    }

    #[test]
    fn a_function_of_the_samples_follows_their_minutes() {
        let [rate, ..] = Rates::Samples.of(1, 1)[..] else {
            unreachable!()
        };
        let mut numbers = PoissonNumbers::new(Rng::new(1, 0));
        let mut mean = |minute| {
            let drawn = (0..2_000).map(|_| rate.in_minute(minute, &mut numbers));
            drawn.sum::<u64>() / 2_000
        };
        let (third, fifth) = (mean(2), mean(4));
        assert!(third > fifth * 3 / 2, "{third} {fifth}");
        assert!(mean(30) < 60);
        assert_eq!(Rates::Fixed(3).of(1, 1)[0].in_minute(4, &mut numbers), 300);
    }
}
