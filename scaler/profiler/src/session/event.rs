//! Progress events of a profiling session.

use std::fmt;

use crate::measurement::Measurement;
use crate::plan::RuledOut;
use crate::setting::Setting;

/// A progress event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A warning for the reader of the profile.
    Warning(String),
    /// Configurations that the database already has.
    Resumed {
        /// Number of configurations.
        count: usize,
    },
    /// Begin of the first start, which is not measured.
    FirstStart,
    /// Begin of the measurement of a configuration.
    Measuring {
        /// Its setting.
        setting: Setting,
        /// Number of configurations before it.
        place: usize,
        /// Total number of configurations.
        of: usize,
    },
    /// Progress within a configuration.
    Doing {
        /// Its setting.
        setting: Setting,
        /// Description of the current step.
        what: String,
    },
    /// A finished and stored configuration.
    Measured(Measurement),
    /// A configuration that measurements rule out.
    RuledOut(Setting, RuledOut),
    /// The end of the budget, with the number of configurations left.
    OutOfTime(usize),
    /// A configuration that could not be measured, with the error.
    Failed(Setting, String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::Resumed { count } => write!(
                f,
                "{count} configurations are in the database already; use --fresh to measure them again"
            ),
            Self::FirstStart => {
                f.write_str("first start, not measured: loads the model and tries the requests")
            }
            Self::Measuring { setting, place, of } => {
                write!(
                    f,
                    "{} ({} of {of}): start and load",
                    setting.name(),
                    place + 1
                )
            }
            Self::Doing { setting, what } => write!(f, "{}: {what}", setting.name()),
            Self::Measured(one) => write!(
                f,
                "{}: p50 {:.1} ms, p99 {:.1} ms, {:.1} requests/s, {} MiB of its own",
                one.setting.name(),
                one.latency.p50 as f64 / 1_000.0,
                one.latency.p99 as f64 / 1_000.0,
                one.requests_per_second,
                one.own_bytes >> 20,
            ),
            Self::RuledOut(setting, why) => write!(f, "{}: not measured, {why}", setting.name()),
            Self::OutOfTime(left) => {
                write!(
                    f,
                    "the time is over: {left} configurations are not measured"
                )
            }
            Self::Failed(setting, error) => write!(f, "{}: failed, {error}", setting.name()),
        }
    }
}
