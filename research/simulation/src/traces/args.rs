//! Arguments for a file of a trace.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::{Limits, RecordedTrace, SampleRule, TraceError, Window};

/// Maximum mean of `--trace-rate`, in requests per second.
const MAX_RATE_RPS: f64 = 10_000.0;

/// Arguments for requests from a file.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Requests from a file")]
pub struct TraceArgs {
    /// Take requests from FILE: a CSV of Azure Functions 2019 or 2021, or of BurstGPT
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// First minute of the file to take
    #[arg(long, value_name = "N", requires = "trace", default_value_t = 0)]
    trace_start_minutes: u32,
    /// Number of minutes to take, compressed or stretched to the length of the run [default: the length of the run]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..=366 * 1_440))]
    trace_minutes: Option<u32>,
    /// Number of functions, chosen at random [default: as many as the run has use for]
    #[arg(long, value_name = "N", requires = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    trace_functions: Option<u32>,
    /// Number of requests within these minutes that a function needs to be chosen
    #[arg(long, value_name = "N", requires = "trace", default_value_t = 1)]
    trace_min_requests: u64,
    /// Mean of the requests of all chosen functions, in requests per second; decimals are possible
    #[arg(long, value_name = "RPS", requires = "trace", value_parser = micro_rps)]
    trace_rate: Option<u64>,
}

/// A file with the rules for its use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceFile {
    /// Requests of the file.
    #[serde(flatten)]
    pub trace: RecordedTrace,
    /// Rule for the choice of functions.
    pub rule: SampleRule,
    /// Mean of the requests of all chosen functions, in millionths of a request per second, if it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_rps: Option<u64>,
}

impl TraceArgs {
    /// Reads the file for a run of `run_s` seconds; `None` without a file.
    ///
    /// # Errors
    ///
    /// Fails as [`RecordedTrace::read`] does.
    pub fn read(&self, run_s: u64) -> Result<Option<TraceFile>, TraceError> {
        let Some(path) = &self.trace else {
            return Ok(None);
        };
        let minutes_s = self.trace_minutes.map(|minutes| u64::from(minutes) * 60);
        let window = Window::new(
            u64::from(self.trace_start_minutes),
            minutes_s.unwrap_or(run_s),
        );
        Ok(Some(TraceFile {
            trace: RecordedTrace::read(path, window, &Limits::default())?,
            rule: SampleRule {
                functions: self.trace_functions.map(|number| number as usize),
                min_requests: self.trace_min_requests,
            },
            micro_rps: self.trace_rate,
        }))
    }
}

/// Parses a rate, and returns it in millionths of a request per second.
fn micro_rps(text: &str) -> Result<u64, String> {
    let rps = text.parse().unwrap_or(f64::NAN);
    if (0.000_001..=MAX_RATE_RPS).contains(&rps) {
        return Ok((rps * 1e6).round() as u64);
    }
    Err(format!(
        "expected requests per second from 0.000001 to {MAX_RATE_RPS}, for example 0.5"
    ))
}
