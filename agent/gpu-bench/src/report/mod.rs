//! Samples, figures and bars.

mod text;

use serde::Serialize;

use crate::BenchError;
use crate::stats::{extremes, median};

/// Name and version of the layout of the JSON document.
pub const SCHEMA: &str = "tetris-gpu-bench/1";

/// Said of every figure that was taken on the stand-in.
pub const STAND_IN: &str = "taken on host memory in place of a device: these figures say nothing of a GPU, and no bar is judged by them";

/// Everything a run found. Bytes are integers or floating-point numbers, times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// When the run began, UTC.
    pub date: String,
    /// Version of this program.
    pub version: &'static str,
    /// What it ran on.
    pub machine: Machine,
    /// The device.
    pub device: Device,
    /// The model.
    pub model: ModelReport,
    /// What was asked for.
    pub settings: Settings,
    /// What was measured, in order.
    pub measures: Vec<Measured>,
    /// What to keep in mind.
    pub notes: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many threads it runs at a time.
    pub threads: usize,
    /// Host memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
}

/// The device.
#[derive(Debug, Clone, Serialize)]
pub struct Device {
    /// Whether it is host memory in place of one.
    pub stand_in: bool,
    /// The product's name.
    pub name: String,
    /// Its identity.
    pub uuid: String,
    /// All of its memory, in bytes.
    pub total_bytes: u64,
    /// The driver's version; none for the stand-in.
    pub driver: Option<String>,
}

/// The model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// The file it came from; none if it was made up.
    pub file: Option<String>,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// How many tensors.
    pub tensors: usize,
    /// Bytes of the largest.
    pub largest_bytes: u64,
}

/// What was asked for.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Samples of each kind.
    pub rounds: u32,
    /// Processes that share the model.
    pub processes: u32,
    /// Bytes of a transfer.
    pub transfer_bytes: u64,
    /// Length of chunks of device memory.
    pub chunk_bytes: u64,
    /// Size of the groups that copies are made in: the elbow of a calibration run.
    pub group_bytes: u64,
}

/// A measure and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name, as on the command line.
    pub name: String,
    /// What it measures.
    pub about: &'static str,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a measure.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It was measured.
    Measured(Findings),
    /// It cannot be measured here.
    Skipped {
        /// Why.
        reason: String,
    },
    /// Something went wrong.
    Failed {
        /// What.
        reason: String,
    },
}

/// What a measure found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// What was sampled.
    pub series: Vec<Series>,
    /// What follows from it.
    pub figures: Vec<Figure>,
    /// What to know about it.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds samples. None is as good as no series.
    pub fn series(&mut self, name: impl Into<String>, unit: Unit, samples: Vec<f64>) {
        self.series.extend(Series::new(name, unit, samples));
    }

    /// Adds a figure without a bar.
    pub fn figure(&mut self, name: impl Into<String>, unit: Unit, value: f64) {
        let name = name.into();
        let bar = None;
        self.figures.push(Figure {
            name,
            unit,
            value,
            bar,
        });
    }

    /// Adds a figure with the bar that it has to meet. It is judged later.
    pub fn judged(&mut self, name: impl Into<String>, unit: Unit, value: f64, limit: Limit) {
        let name = name.into();
        let bar = Some(Bar { limit, met: None });
        self.figures.push(Figure {
            name,
            unit,
            value,
            bar,
        });
    }

    /// Adds a remark.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Says of each bar whether it is met.
    pub(crate) fn judge(&mut self) {
        for figure in &mut self.figures {
            let value = figure.value;
            if let Some(bar) = &mut figure.bar {
                bar.met = Some(bar.limit.is_met(value));
            }
        }
    }
}

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second. In text: GB/s, with 10^9 bytes.
    BytesPerSecond,
    /// A number of things.
    Count,
    /// How many times something is something else.
    Ratio,
}

/// Samples of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Of what.
    pub name: String,
    /// Of all values.
    pub unit: Unit,
    /// Middle sample, or the mean of the two middle ones.
    pub median: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// All of them, in the order in which they were taken.
    pub samples: Vec<f64>,
}

impl Series {
    /// Sums up samples; `None` without any.
    pub fn new(name: impl Into<String>, unit: Unit, samples: Vec<f64>) -> Option<Self> {
        let (min, max) = extremes(&samples)?;
        Some(Self {
            name: name.into(),
            unit,
            median: median(&samples)?,
            min,
            max,
            samples,
        })
    }
}

/// What follows from samples.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What it says.
    pub name: String,
    /// Of its value.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
    /// What it has to be, if anything.
    pub bar: Option<Bar>,
}

/// What a figure has to be.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bar {
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// Whether it is met; nothing on the stand-in.
    pub met: Option<bool>,
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The value has to be this or less.
    AtMost(f64),
    /// The value has to be this or more.
    AtLeast(f64),
}

impl Limit {
    /// Whether `value` is within it.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// The median of samples, or 0 without any.
pub fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(0.0)
}

/// `a` over `b`; nothing if `b` is 0.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

impl Report {
    /// An error if a measure failed. Bars that are not met are none, and so is what cannot be measured here.
    pub fn check(&self) -> Result<(), BenchError> {
        let failed = |one: &&Measured| matches!(one.outcome, Outcome::Failed { .. });
        let names: Vec<_> = self
            .measures
            .iter()
            .filter(failed)
            .map(|one| one.name.as_str())
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let names = names.join(", ");
        Err(BenchError::Failed { names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_judged_by_their_own_side() {
        let mut findings = Findings::default();
        findings.judged("a", Unit::Seconds, 0.05, Limit::AtMost(0.05));
        findings.judged("b", Unit::Ratio, 0.94, Limit::AtLeast(0.95));
        findings.figure("c", Unit::Count, 1.0);
        let met = |findings: &Findings| -> Vec<_> {
            let bars = findings
                .figures
                .iter()
                .map(|one| one.bar.and_then(|bar| bar.met));
            bars.collect()
        };
        assert_eq!(met(&findings), [None, None, None]);
        findings.judge();
        assert_eq!(met(&findings), [Some(true), Some(false), None]);
    }

    #[test]
    fn a_series_needs_a_sample() {
        let mut findings = Findings::default();
        findings.series("none", Unit::Seconds, Vec::new());
        findings.series("one", Unit::Seconds, vec![2.0]);
        let names: Vec<_> = findings
            .series
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert_eq!(names, ["one"]);
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
    }
}
