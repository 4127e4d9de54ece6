//! Samples, figures and bars.

mod stores;
mod text;

use serde::Serialize;

use crate::BenchError;
use crate::stats::{extremes, median};

pub use stores::StoreReport;

/// Name and version of the JSON document's format.
pub const SCHEMA: &str = "tetris-gpu-bench/1";

/// Note of every report from the simulated device.
pub const SIMULATED: &str = "measured on host memory in place of a device: these figures say nothing of a GPU, and no bar is judged";

/// Results of a run. Bytes are integers or floating-point numbers, times are in seconds.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Time of the run's start, UTC.
    pub date: String,
    /// Version of this program.
    pub version: &'static str,
    /// Description of the machine.
    pub machine: Machine,
    /// The device.
    pub device: Device,
    /// The model.
    pub model: ModelReport,
    /// Settings of the run.
    pub settings: Settings,
    /// The stores, in the order of the command line.
    pub stores: Vec<StoreReport>,
    /// True if no measure is missing: the run reached its end.
    pub complete: bool,
    /// Results of the measures, in order.
    pub measures: Vec<Measured>,
    /// Remarks on the whole run.
    pub notes: Vec<String>,
}

/// The machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Number of its hardware threads.
    pub threads: usize,
    /// Length of host memory, in bytes.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
}

/// The device.
#[derive(Debug, Clone, Serialize)]
pub struct Device {
    /// True if it is host memory in place of a GPU.
    pub simulated: bool,
    /// The product's name.
    pub name: String,
    /// Its UUID.
    pub uuid: String,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// The driver's version; `None` for host memory.
    pub driver: Option<String>,
}

/// The model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelReport {
    /// Path of its file; `None` if it was generated.
    pub file: Option<String>,
    /// Length of its tensors, in bytes.
    pub bytes: u64,
    /// Number of tensors.
    pub tensors: usize,
    /// Length of the longest tensor, in bytes.
    pub largest_bytes: u64,
}

/// Settings of the run.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// Number of samples of each kind.
    pub rounds: u32,
    /// Number of processes that share the model.
    pub processes: u32,
    /// Length of a transfer, in bytes.
    pub transfer_bytes: u64,
    /// Length of chunks of device memory, in bytes.
    pub chunk_bytes: u64,
    /// Group size of copies in bytes: the elbow of a calibration run.
    pub group_bytes: u64,
}

/// A measure and its outcome.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name, as on the command line.
    pub name: String,
    /// Description of the measure.
    pub about: &'static str,
    /// Directory of the store that it used.
    pub store_dir: String,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: MeasureOutcome,
}

/// Outcome of a measure.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum MeasureOutcome {
    /// It was measured.
    Measured(Findings),
    /// It cannot be measured here.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// It failed.
    Failed {
        /// The error.
        reason: String,
    },
}

/// Results of a measure.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// Series of samples.
    pub series: Vec<Series>,
    /// Figures computed from the samples.
    pub figures: Vec<Figure>,
    /// Remarks on them.
    pub notes: Vec<String>,
}

impl Findings {
    /// Adds a series of samples, unless there are none.
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

    /// Adds a figure with a bar, which is judged later.
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

    /// Compares each figure with its bar.
    pub(crate) fn judge(&mut self) {
        for figure in &mut self.figures {
            let value = figure.value;
            if let Some(bar) = &mut figure.bar {
                bar.met = Some(bar.limit.is_met(value));
            }
        }
    }
}

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second. In text: GB/s, with 10^9 bytes.
    BytesPerSecond,
    /// A plain number.
    Count,
    /// A ratio of two values.
    Ratio,
}

/// Samples of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Median of the samples.
    pub median: f64,
    /// Minimum of the samples.
    pub min: f64,
    /// Maximum of the samples.
    pub max: f64,
    /// All samples, in the order of measurement.
    pub samples: Vec<f64>,
}

impl Series {
    /// Summarizes samples; `None` without samples.
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

/// A number computed from samples.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Unit of its value.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
    /// The requirement on its value, if any.
    pub bar: Option<Bar>,
}

/// A requirement on a figure.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Bar {
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// True if the value meets it; `None` on host memory.
    pub met: Option<bool>,
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The value must not exceed this number.
    AtMost(f64),
    /// The value must be at least this number.
    AtLeast(f64),
}

impl Limit {
    /// Returns true if `value` is within the limit.
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

/// Median of samples, or 0 without samples.
pub fn middle(samples: &[f64]) -> f64 {
    median(samples).unwrap_or(0.0)
}

/// Ratio of `a` to `b`; `None` if `b` is 0.
pub fn ratio(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then(|| a / b)
}

impl Report {
    /// Checks for failed measures. Missed bars and skipped measures are no errors.
    ///
    /// # Errors
    ///
    /// [`BenchError::Failed`] with the names of the failed measures.
    pub fn check(&self) -> Result<(), BenchError> {
        let failed = |one: &&Measured| matches!(one.outcome, MeasureOutcome::Failed { .. });
        let names: Vec<_> = self
            .measures
            .iter()
            .filter(failed)
            .map(|measure| measure.name.as_str())
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
                .map(|figure| figure.bar.and_then(|bar| bar.met));
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
            .map(|series| series.name.as_str())
            .collect();
        assert_eq!(names, ["one"]);
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 2.0), Some(0.5));
    }
}
