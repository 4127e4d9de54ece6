//! Arguments of `plan`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tetris_scaler_core::{Rate, RateError};

/// Arguments of `plan`.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = AFTER)]
pub struct PlanArgs {
    /// File or directory with ModelProfiles, InferenceFunctions and nodes, as YAML or JSON; `-` for
    /// standard input; can be repeated
    #[arg(short, long, value_name = "PATH", required = true)]
    pub file: Vec<PathBuf>,
    /// Requests per second of a function, instead of its load source; NAMESPACE/NAME if the name is
    /// ambiguous; can be repeated
    #[arg(long, value_name = "NAME=RPS")]
    pub load: Vec<LoadOverride>,
    /// Format of the plan on standard output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Show why each configuration was chosen or not, and the memory that sharing saves on each
    /// node
    #[arg(long)]
    pub explain: bool,
}

const AFTER: &str = "\
Documents: ModelProfile and InferenceFunction; Node and Pod, as `kubectl get -o yaml` prints them; the answer of a \
node's /inventory/objects; and, without a cluster, PlanNodes:

  kind: PlanNodes
  nodes:
    - {name: a, count: 4, cpuMillis: 16000, memoryBytes: 68719476736,
       storeBytes: 34359738368, models: [bert]}

Exit codes:
    0  the plan carries all loads
    1  the plan does not carry all loads
    2  the input is invalid";

/// Format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables
    Text,
    /// One JSON document
    Json,
}

/// A load given as `NAME=RPS` or `NAMESPACE/NAME=RPS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadOverride {
    /// Name of the function, with or without its namespace.
    pub function: String,
    /// The load.
    pub load: Rate,
}

/// The reason that a text is no load of a function.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadOverrideError {
    /// There is no name, or no number.
    #[error("expected NAME=RPS, such as bert=120")]
    Form,
    /// The load is no number.
    #[error("{found:?} is not a number, expected requests per second")]
    Number {
        /// The text behind the name.
        found: String,
    },
    /// The load is out of range.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl FromStr for LoadOverride {
    type Err = LoadOverrideError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (function, rps) = text
            .rsplit_once('=')
            .filter(|(function, _)| !function.is_empty())
            .ok_or(LoadOverrideError::Form)?;
        let number: f64 = rps.parse().map_err(|_| LoadOverrideError::Number {
            found: rps.to_owned(),
        })?;
        let load = Rate::try_from_rps_f64(number)?;
        Ok(Self {
            function: function.to_owned(),
            load,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_name_and_a_number() {
        let read: LoadOverride = "prod/bert=2.5".parse().unwrap();
        assert_eq!(read.function, "prod/bert");
        assert_eq!(read.load, Rate::from_milli_rps(2_500));
        for (text, says) in [
            ("bert", "NAME=RPS"),
            ("=3", "NAME=RPS"),
            ("bert=lots", "not a number"),
            ("bert=-1", "from 0"),
            ("bert=NaN", "from 0"),
        ] {
            let error = text.parse::<LoadOverride>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
