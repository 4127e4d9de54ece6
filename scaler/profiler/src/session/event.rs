//! What is told while a profile is measured.

use std::fmt;

use crate::measurement::Measurement;
use crate::plan::RuledOut;
use crate::setting::Setting;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something that whoever reads the profile should know.
    Warning(String),
    /// So many configurations are in the database already.
    Resumed {
        /// How many.
        count: usize,
    },
    /// The first start, which is not measured.
    FirstStart,
    /// A configuration is being measured.
    Measuring {
        /// Which.
        setting: Setting,
        /// How many come before it.
        place: usize,
        /// Of how many.
        of: usize,
    },
    /// What is being done with it.
    Doing {
        /// Which.
        setting: Setting,
        /// What.
        what: String,
    },
    /// A configuration is finished and kept.
    Measured(Measurement),
    /// A configuration is not measured.
    RuledOut(Setting, RuledOut),
    /// A configuration could not be measured.
    Failed(Setting, String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warning(text) => write!(f, "warning: {text}"),
            Self::Resumed { count } => write!(
                f,
                "{count} configurations are measured already; --fresh measures them again"
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
            Self::Failed(setting, error) => write!(f, "{}: failed, {error}", setting.name()),
        }
    }
}
