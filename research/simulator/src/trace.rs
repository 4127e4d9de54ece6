//! Requests over time, of the three kinds of Tetris figure 8: stable, periodic and bursty.
//!
//! The paper shows traces of Azure Functions but does not publish them; the simulator takes only
//! their shapes. A day is compressed to minutes ([`TraceShape`]). A trace is a rate for each second,
//! scaled to a given mean. Each slot of 100 us has a trial that decides if a request arrives, which
//! is a Poisson process for loads well below 10,000 requests/s. All arithmetic is in integers and
//! follows from a seed.
//!
//! - Stable: a constant rate, plus or minus 5 %.
//! - Periodic: from a night at a fifth of the day's peak to that peak and back, plus or minus 5 %.
//! - Bursty: a quiet level with bursts, each second with a probability of 1/180. A burst's goal is 3
//!   to 7 times the quiet level above it and loses a 32nd per second. Each second the rate approaches
//!   the goal by an eighth of the distance.
//!
//! The numbers are the defaults of [`TraceShape`].

use serde::{Deserialize, Serialize};
use tetris_scaler_core::Rate;
use tetris_simulation::{Rng, TraceKind};

/// Maximum rate of one trace, in requests per second: one request per slot.
pub const MAX_RPS: u64 = SLOTS_PER_S;

const SLOTS_PER_S: u64 = 10_000;
const SLOT_US: u64 = 1_000_000 / SLOTS_PER_S;
/// Level of a second with the mean rate, before scaling.
const UNIT: u64 = 1_000;

/// Invented numbers of the shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceShape {
    /// Maximum deviation of a second from its level, in thousandths.
    pub noise_permille: u64,
    /// Length of a day in the periodic trace, in seconds.
    pub period_s: u64,
    /// Load of the night, in thousandths of the day's peak.
    pub night_permille: u64,
    /// Mean interval between bursts, in seconds.
    pub burst_every_s: u64,
    /// Factor of the height of bursts, in thousandths.
    pub burst_permille: u64,
}

impl Default for TraceShape {
    fn default() -> Self {
        Self {
            noise_permille: 50,
            period_s: 600,
            night_permille: 200,
            burst_every_s: 180,
            burst_permille: 1_000,
        }
    }
}

/// Returns the rate of each of `seconds` seconds. Their mean is `mean`, up to rounding, and no rate
/// exceeds [`MAX_RPS`].
pub fn rates(
    kind: TraceKind,
    shape: &TraceShape,
    seconds: u64,
    mean: Rate,
    seed: u64,
) -> Vec<Rate> {
    let noisy = |level, rng: &mut Rng| noisy(level, shape.noise_permille, rng);
    let mut rng = Rng::new(seed, 1 + kind as u64);
    let (mut goal, mut burst) = (0, 0);
    let levels: Vec<u128> = (0..seconds)
        .map(|second| match kind {
            TraceKind::Stable => noisy(UNIT, &mut rng),
            TraceKind::Periodic => noisy(diurnal(second, shape), &mut rng),
            TraceKind::Bursty => {
                goal -= goal / 32;
                if rng.below(shape.burst_every_s) == 0 {
                    let height = rng.between(3 * UNIT, 7 * UNIT) * shape.burst_permille;
                    goal = goal.max(height / 1_000);
                }
                // In this order no step is negative, even if `goal` is smaller.
                burst = burst - burst / 8 + goal / 8;
                noisy(UNIT + burst, &mut rng)
            }
        })
        .map(u128::from)
        .collect();
    let most = Rate::from_rps(MAX_RPS);
    let rates = scaled(&levels, mean).into_iter();
    rates.map(|rate| rate.min(most)).collect()
}

/// Returns a rate for each level, in proportion to it, with this mean up to rounding.
pub(crate) fn scaled(levels: &[u128], mean: Rate) -> Vec<Rate> {
    let sum: u128 = levels.iter().sum();
    let whole = u128::from(mean.micro_rps()) * levels.len() as u128;
    let rate = |&level: &u128| {
        let micro = level.saturating_mul(whole).checked_div(sum).unwrap_or(0);
        Rate::from_micro_rps(u64::try_from(micro).unwrap_or(u64::MAX))
    };
    levels.iter().map(rate).collect()
}

/// Returns `level` plus or minus `permille`.
fn noisy(level: u64, permille: u64, rng: &mut Rng) -> u64 {
    let permille = permille.min(1_000);
    level * rng.between(1_000 - permille, 1_000 + permille) / 1_000
}

/// Returns a smooth rise over half of the period and the same fall: `t^2 (3 - 2 t)`.
fn diurnal(second: u64, shape: &TraceShape) -> u64 {
    let half = (shape.period_s / 2).max(1);
    let second = second % (2 * half);
    let way = if second < half {
        second
    } else {
        2 * half - second
    };
    let t = way * 1_000 / half;
    let smooth = t * t * (3_000 - 2 * t) / 1_000_000;
    let night = UNIT * shape.night_permille.min(1_000) / 1_000;
    night + (UNIT - night) * smooth / 1_000
}

/// Iterator over the arrival times of requests.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rates: Vec<Rate>,
    rng: Rng,
    slot: u64,
}

impl Arrivals {
    /// Creates arrivals at `rates`, one for each second; `stream` separates traces of one seed.
    pub fn new(rates: Vec<Rate>, seed: u64, stream: u64) -> Self {
        Self {
            rates,
            rng: Rng::new(seed, 16 + stream),
            slot: 0,
        }
    }
}

impl Iterator for Arrivals {
    /// Time of a request, in microseconds.
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        loop {
            let rate = self.rates.get((self.slot / SLOTS_PER_S) as usize)?;
            let at_us = self.slot * SLOT_US;
            self.slot += 1;
            // A rate of a millionth of a request per second is a probability of 10^-10 per slot.
            if self.rng.below(SLOTS_PER_S * 1_000_000) < rate.micro_rps() {
                return Some(at_us);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_follows_from_its_seed_and_has_the_mean() {
        for kind in TraceKind::ALL {
            let trace = rates(kind, &TraceShape::default(), 1_200, Rate::from_rps(50), 7);
            assert_eq!(
                trace,
                rates(kind, &TraceShape::default(), 1_200, Rate::from_rps(50), 7)
            );
            assert_ne!(
                trace,
                rates(kind, &TraceShape::default(), 1_200, Rate::from_rps(50), 8)
            );
            let sum: Rate = trace.iter().copied().sum();
            let asked = Rate::from_rps(50).times(1_200);
            assert!(asked.minus(sum) < Rate::from_micro_rps(1_201) && sum <= asked);
        }
    }

    #[test]
    fn the_shapes_are_those_of_figure_8() {
        let mean = Rate::from_rps(100);
        let range = |kind| {
            let trace = rates(kind, &TraceShape::default(), 1_800, mean, 3);
            let ends = trace.iter().min().zip(trace.iter().max());
            ends.map(|(low, high)| (low.micro_rps() / 1_000_000, high.micro_rps() / 1_000_000))
        };
        let (low, high) = range(TraceKind::Stable).unwrap();
        assert!(low >= 94 && high <= 106, "{low} {high}");
        let (low, high) = range(TraceKind::Periodic).unwrap();
        assert!(low < 40 && (150..180).contains(&high), "{low} {high}");
        let (low, high) = range(TraceKind::Bursty).unwrap();
        assert!(low < 90 && high > 250, "{low} {high}");
    }

    #[test]
    fn requests_come_in_order_at_the_rate() {
        let trace = vec![Rate::from_rps(200); 100];
        let arrivals: Vec<u64> = Arrivals::new(trace, 1, 0).collect();
        assert!(arrivals.is_sorted_by(|a, b| a < b));
        // Five standard deviations.
        assert!(
            (19_300..20_700).contains(&arrivals.len()),
            "{}",
            arrivals.len()
        );
        assert!(arrivals.last().is_some_and(|&last| last < 100_000_000));
    }
}
