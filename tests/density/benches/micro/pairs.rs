//! Measurement of ours and a baseline by turns.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tetris_test_support::stats::median;

use crate::fixture::Fixture;

/// Measurement of one round: seconds, possibly per unit.
pub type Measure = fn(&Fixture) -> Result<f64>;

/// Requirement on a result.
#[derive(Clone, Copy)]
pub enum Bar {
    /// Ours takes at most this multiple of the baseline's time.
    AtMost(f64),
    /// Ours reaches at least this multiple of the baseline's speed.
    SpeedAtLeast(f64),
    /// Ours stays below this number of its unit; the baseline is for comparison only.
    OursAtMost(f64),
    /// No requirement.
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

/// Format of a measurement.
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
    /// Runs both by turns, after one round that does not count.
    pub fn run(&self, fixture: &Fixture, rounds: usize) -> Result<Line> {
        (self.ours)(fixture)?;
        (self.baseline)(fixture)?;
        let (mut ours, mut baseline, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds.max(1) {
            let our_time = (self.ours)(fixture)?;
            let other = (self.baseline)(fixture)?;
            ours.push(our_time);
            baseline.push(other);
            ratios.push(our_time / other);
        }
        Ok(Line {
            bench: *self,
            ours: median(&ours).context("no rounds")?,
            baseline: median(&baseline).context("no rounds")?,
            ratio: median(&ratios).context("no rounds")?,
        })
    }
}

/// The result of a benchmark.
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

impl Line {
    /// The result as an object of the JSON file.
    pub fn json(&self) -> Value {
        let (ratio, bar, met) = self.verdict();
        json!({
            "name": self.bench.name,
            "ours": self.bench.unit.show(self.ours),
            "baseline": self.bench.baseline_name,
            "baseline_value": self.bench.unit.show(self.baseline),
            "ratio": ratio,
            "bar": bar,
            "met": met,
        })
    }

    /// The ratio in the direction of the bar, the bar, and true if it is met.
    fn verdict(&self) -> (f64, String, Option<bool>) {
        let Bench { unit, .. } = self.bench;
        match self.bench.bar {
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
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bench { unit, .. } = self.bench;
        let (ratio, bar, met) = self.verdict();
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

/// Measures `work` in seconds; drops its result outside the measurement.
pub fn seconds<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let begun = Instant::now();
    let kept = work()?;
    let taken = begun.elapsed().as_secs_f64();
    drop(kept);
    Ok(taken)
}
