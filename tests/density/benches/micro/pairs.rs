//! Timing ours and a baseline in turns.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use tetris_density::stats::median;

use crate::fixture::Fixture;

/// What a round gives: seconds, possibly divided by something.
pub type Measure = fn(&Fixture) -> Result<f64>;

/// What the ratio should be.
#[derive(Clone, Copy)]
pub enum Bar {
    /// Ours must take at most this multiple of the baseline's time.
    AtMost(f64),
    /// Ours must reach at least this multiple of the baseline's speed.
    SpeedAtLeast(f64),
    /// Ours itself must stay below this many of its unit; the baseline is there to compare.
    OursAtMost(f64),
    /// Only for information.
    None,
}

/// One line of the result.
#[derive(Clone, Copy)]
pub struct Bench {
    pub name: &'static str,
    pub baseline_name: &'static str,
    pub unit: Unit,
    pub bar: Bar,
    pub ours: Measure,
    pub baseline: Measure,
}

/// How a measure is printed.
#[derive(Clone, Copy)]
pub enum Unit {
    Milliseconds,
    Microseconds,
    /// The measure is seconds per gigabyte.
    GigabytesPerSecond,
}

impl Unit {
    fn show(self, seconds: f64) -> String {
        match self {
            Self::Milliseconds => format!("{:.2} ms", seconds * 1e3),
            Self::Microseconds => format!("{:.2} us", seconds * 1e6),
            Self::GigabytesPerSecond => format!("{:.2} GB/s", 1.0 / seconds),
        }
    }

    fn in_unit(self, seconds: f64) -> f64 {
        match self {
            Self::Milliseconds => seconds * 1e3,
            Self::Microseconds => seconds * 1e6,
            Self::GigabytesPerSecond => 1.0 / seconds,
        }
    }
}

impl Bench {
    /// Runs both in turns, after one round that does not count.
    pub fn run(&self, fixture: &Fixture, rounds: usize) -> Result<Line> {
        (self.ours)(fixture)?;
        (self.baseline)(fixture)?;
        let (mut ours, mut baseline, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            let one = (self.ours)(fixture)?;
            let other = (self.baseline)(fixture)?;
            ours.push(one);
            baseline.push(other);
            ratios.push(one / other);
        }
        Ok(Line {
            bench: *self,
            ours: median(&ours).context("no rounds")?,
            baseline: median(&baseline).context("no rounds")?,
            ratio: median(&ratios).context("no rounds")?,
        })
    }
}

/// A bench's result.
pub struct Line {
    bench: Bench,
    ours: f64,
    baseline: f64,
    ratio: f64,
}

impl Line {
    pub fn header() -> String {
        format!(
            "{:<34} {:>12}  {:<36} {:>12} {:>7}  {}",
            "ours", "median", "baseline", "median", "ratio", "bar"
        )
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bench { unit, .. } = self.bench;
        let (ratio, bar, met) = match self.bench.bar {
            Bar::AtMost(bar) => (self.ratio, format!("<= {bar} x"), Some(self.ratio <= bar)),
            Bar::SpeedAtLeast(bar) => {
                let ratio = 1.0 / self.ratio;
                (ratio, format!(">= {bar} x"), Some(ratio >= bar))
            }
            Bar::OursAtMost(bar) => {
                let met = unit.in_unit(self.ours) <= bar;
                let bar = unit.show(bar / unit.in_unit(1.0));
                (self.ratio, format!("ours <= {bar}"), Some(met))
            }
            Bar::None => (self.ratio, "-".to_owned(), None),
        };
        let verdict = match met {
            Some(true) => ", met",
            Some(false) => ", MISSED",
            None => "",
        };
        write!(
            f,
            "{:<34} {:>12}  {:<36} {:>12} {:>7.3}  {bar}{verdict}",
            self.bench.name,
            unit.show(self.ours),
            self.bench.baseline_name,
            unit.show(self.baseline),
            ratio,
        )
    }
}

/// Seconds that `work` takes; what it returns is dropped outside the measurement.
pub fn seconds<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begun = Instant::now();
    let kept = work()?;
    let taken = begun.elapsed().as_secs_f64();
    drop(kept);
    Ok(taken)
}
