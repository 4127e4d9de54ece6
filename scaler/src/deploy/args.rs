//! Arguments of `deploy`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tetris_units::duration::{self, DurationError};

use crate::resources::Percentile;

/// Arguments of `deploy`.
#[derive(Debug, Clone, Args)]
pub struct DeployArgs {
    /// Source of the model: hf://ORG/MODEL or hf://ORG/MODEL@REVISION, s3://, gs:// or az://BUCKET/FOLDER, oci://REGISTRY/REPO:TAG, or https://HOST/FILE
    pub source: String,
    /// Longest latency of a request, e.g. 200ms
    #[arg(long, value_name = "TIME", value_parser = slo)]
    pub slo: Duration,
    /// Percentile of requests within it
    #[arg(long, value_name = "P", default_value = "95", value_parser = percentile)]
    pub percentile: Percentile,
    /// Name of the function, and of its Model [default: the last part of the source]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Namespace [default: that of the kubeconfig]
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Namespace of the scaler
    #[arg(long, value_name = "NAME", default_value = "tetris-system")]
    pub operator_namespace: String,
    /// Engine, such as instance or vllm [default: the installed one for the model's task and format]
    #[arg(long, value_name = "NAME")]
    pub engine: Option<String>,
    /// Image in the place of the engine's
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Argument after the engine's own; may be repeated
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    pub args: Vec<String>,
    /// Secret of the namespace with the source's credentials
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// Further variable of the source, no secret, e.g. AWS_REGION=eu-west-1; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = variable)]
    pub environment: Vec<(String, String)>,
    /// Least number of instances
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_instances: u32,
    /// Largest number of instances
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_instances: u32,
    /// Time after which the operator begins no further measurement
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = minutes)]
    pub profiling_time: u32,
    /// Use this ModelProfile, and measure nothing
    #[arg(long, value_name = "NAME", conflicts_with = "profiling_time")]
    pub profile: Option<String>,
    /// Let a function or Model of this name have another source from now on
    #[arg(long)]
    pub replace: bool,
    /// Print the resources as YAML, and apply nothing
    #[arg(long)]
    pub dry_run: bool,
    /// State to wait for
    #[arg(long, value_name = "STATE", value_enum, default_value_t = WaitFor::Profiled)]
    pub wait: WaitFor,
    /// Longest wait
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Format of the result on standard output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DeployFormat::Text)]
    pub format: DeployFormat,
}

/// State that `deploy` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum WaitFor {
    /// Nothing: end once all is applied
    Applied,
    /// The function serves, with a profile or an assumed one
    Serving,
    /// The function serves, and is measured
    Profiled,
}

/// Format of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeployFormat {
    /// Text
    Text,
    /// JSON
    Json,
}

/// The reason that an argument is refused.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("expected {least} to {most}, found `{text}`")]
    Range {
        least: &'static str,
        most: &'static str,
        text: String,
    },
    #[error("expected 50, 90, 95 or 99, found `{0}`")]
    Percentile(String),
    #[error("expected NAME=VALUE, found `{0}`")]
    Variable(String),
}

fn slo(text: &str) -> Result<Duration, ArgumentError> {
    let slo = duration::parse(text)?;
    let range = Duration::from_millis(1)..=Duration::from_hours(2);
    if range.contains(&slo) {
        return Ok(slo);
    }
    let text = text.to_owned();
    let (least, most) = ("1ms", "2h");
    Err(ArgumentError::Range { least, most, text })
}

fn minutes(text: &str) -> Result<u32, ArgumentError> {
    let seconds = duration::parse_seconds(text)?;
    let minutes = u32::try_from(seconds.div_ceil(60)).ok();
    let minutes = minutes.filter(|minutes| (1..=1_440).contains(minutes));
    minutes.ok_or_else(|| ArgumentError::Range {
        least: "1m",
        most: "1d",
        text: text.to_owned(),
    })
}

fn percentile(text: &str) -> Result<Percentile, ArgumentError> {
    let number = text.parse::<u64>().ok();
    let percentile = number.and_then(|number| Percentile::try_from(number).ok());
    percentile.ok_or_else(|| ArgumentError::Percentile(text.to_owned()))
}

fn variable(text: &str) -> Result<(String, String), ArgumentError> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or_else(|| ArgumentError::Variable(text.to_owned()))?;
    Ok((name.to_owned(), value.to_owned()))
}
