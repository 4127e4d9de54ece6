//! Commands that repeat the evaluation of papers.

use std::io::{self, Write as _};
use std::num::ParseFloatError;
use std::time::{Duration, Instant, TryFromFloatSecsError};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tetris_scaler_core::MAX_ALPHA;
use tetris_scaler_simulator::evaluation::{self, ALPHAS, LONGEST_S, MIN_SECONDS, TetrisGrid};
use tetris_scaler_simulator::gpu::gpu_faas::{self, FaasGrid, Popularity};
use tetris_scaler_simulator::gpu::tidal::{self, TidalGrid};
use tetris_scaler_simulator::gpu::torpor::{self, Arrivals, TorporGrid};
use tetris_simulation::ReportFormat;
use thiserror::Error;

use super::{gpu_faas_text, tetris_text, tidal_text, torpor_text};

/// A paper to repeat.
#[derive(Debug, Subcommand)]
pub enum Reproduce {
    /// Repeat the evaluation of Tetris, figures 9 to 14, over the 21 models of its table 4
    #[command(name = "reproduce-tetris")]
    Tetris(TetrisArgs),
    /// Repeat the evaluation of GPU-FaaS: LB, LALB and LALBO3 on 12 GPUs
    #[command(name = "reproduce-gpu-faas")]
    GpuFaas(GpuFaasArgs),
    /// Repeat the evaluation of Torpor, and families of models that share a base
    #[command(name = "reproduce-torpor")]
    Torpor(TorporArgs),
    /// Repeat TIDAL's evaluation with traces (figure 19): sixteen functions on eight GPUs
    #[command(name = "reproduce-tidal")]
    Tidal(TidalArgs),
}

/// Arguments of `reproduce-tetris`.
#[derive(Debug, Args)]
pub struct TetrisArgs {
    /// Length of each run in seconds; those by load, by headroom and of figure 14b have a sixth
    #[arg(long, default_value_t = TetrisGrid::default().seconds, value_parser = clap::value_parser!(u64).range(MIN_SECONDS..=LONGEST_S))]
    seconds: u64,
    /// Seed of requests, latencies and orders of tensors
    #[arg(long, value_name = "N", default_value_t = TetrisGrid::default().seed)]
    seed: u64,
    /// Costs of CPU in figure 12 beside zero, in bytes per millicore, separated by commas
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', default_values_t = ALPHAS, value_parser = clap::value_parser!(u64).range(..=MAX_ALPHA))]
    alphas: Vec<u64>,
    /// Time to measure one configuration of a model (figure 14c)
    #[arg(long, value_name = "SECONDS", default_value = "12.5", value_parser = seconds)]
    seconds_per_configuration: Duration,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

/// The reason a text is not a time to measure a configuration.
#[derive(Debug, Error)]
enum TimeError {
    /// Text without a number.
    #[error("expected a number of seconds, such as 12.5")]
    NotANumber(#[from] ParseFloatError),
    /// Negative, infinite or too large.
    #[error(transparent)]
    NotATime(#[from] TryFromFloatSecsError),
    /// Out of range.
    #[error("expected 0.001 to 86400 seconds")]
    OutOfRange,
}

/// Parses a number of seconds with decimals, from a millisecond to a day.
fn seconds(text: &str) -> Result<Duration, TimeError> {
    let time = Duration::try_from_secs_f64(text.parse()?)?;
    let range = Duration::from_millis(1)..=Duration::from_hours(24);
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(TimeError::OutOfRange)
    }
}

/// Arguments of `reproduce-gpu-faas`.
#[derive(Debug, Args)]
pub struct GpuFaasArgs {
    /// Number of minutes of requests
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    minutes: u64,
    /// Number of seeds, whose mean is reported
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Memory of a GPU for models, in megabytes
    #[arg(long, value_name = "MB", default_value_t = FaasGrid::default().memory_mb, value_parser = clap::value_parser!(u64).range(4_000..=1_000_000))]
    memory_mb: u64,
    /// Popularity of functions
    #[arg(long, value_name = "NAME", value_enum, default_value_t = PopularityName::Root)]
    popularity: PopularityName,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

/// Arguments of `reproduce-torpor`.
#[derive(Debug, Args)]
pub struct TorporArgs {
    /// Length of each run in seconds [default: the authors', 300 to 1,860]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=100_000))]
    seconds: Option<u64>,
    /// Kind of arrivals
    #[arg(long, value_name = "KIND", value_enum, default_value_t = ArrivalsName::Authors)]
    arrivals: ArrivalsName,
    /// Memory of a GPU for models, in megabytes
    #[arg(long, value_name = "MB", default_value_t = TorporGrid::default().memory_mb, value_parser = clap::value_parser!(u64).range(2_000..=1_000_000))]
    memory_mb: u64,
    /// Seed of rates and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

/// Arguments of `reproduce-tidal`.
#[derive(Debug, Args)]
pub struct TidalArgs {
    /// Requests per minute of all functions together
    #[arg(long, value_name = "N", default_value_t = TidalGrid::default().per_minute, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    per_minute: u64,
    /// Length of each run in seconds
    #[arg(long, default_value_t = TidalGrid::default().seconds, value_parser = clap::value_parser!(u64).range(60..=1_000_000))]
    seconds: u64,
    /// Seed of traces and arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    format: ReportFormat,
}

/// Popularity on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PopularityName {
    /// The same number of requests for each function
    Uniform,
    /// Requests in proportion to the inverse square root of the function's rank
    Root,
    /// Requests in proportion to the inverse of the function's rank
    Zipf,
    /// 56 % of the requests for the first fifteen functions together, 1 % for each of the others
    TwoTier,
    /// Two tiers, the first in proportion to the inverse square root of the function's rank
    TwoTierRoot,
    /// Two tiers, the first in proportion to the inverse of the function's rank
    TwoTierZipf,
}

/// Kind of arrivals on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsName {
    /// A Poisson process for each function
    PoissonProcess,
    /// Nearly regular, as the authors' sender has them
    Authors,
}

impl Reproduce {
    /// Runs the command and prints its report. Calls `progress` with the number of settings that
    /// are done and of all, where there are many.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is out of range, or if standard output cannot be written.
    pub fn run(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<()> {
        match self {
            Self::Tetris(args) => {
                let grid = TetrisGrid {
                    seconds: args.seconds,
                    seed: args.seed,
                    alphas: TetrisGrid::with_zero(&args.alphas),
                    ms_per_configuration: args.seconds_per_configuration.as_millis() as u64,
                };
                let start = Instant::now();
                let clock = || start.elapsed().as_micros() as u64;
                let report = evaluation::reproduce(grid, &clock, progress).context("simulating")?;
                print(args.format, &report, tetris_text::report)
            }
            Self::GpuFaas(args) => {
                let grid = FaasGrid {
                    minutes: args.minutes,
                    seeds: args.seeds,
                    memory_mb: args.memory_mb,
                    popularity: match args.popularity {
                        PopularityName::Uniform => Popularity::Uniform,
                        PopularityName::Root => Popularity::Root,
                        PopularityName::Zipf => Popularity::Zipf,
                        PopularityName::TwoTier => Popularity::TwoTier,
                        PopularityName::TwoTierRoot => Popularity::TwoTierRoot,
                        PopularityName::TwoTierZipf => Popularity::TwoTierZipf,
                    },
                    ..FaasGrid::default()
                };
                let report = gpu_faas::reproduce(grid, progress);
                print(args.format, &report, gpu_faas_text::report)
            }
            Self::Torpor(args) => {
                let grid = TorporGrid {
                    seconds: args.seconds,
                    memory_mb: args.memory_mb,
                    arrivals: match args.arrivals {
                        ArrivalsName::PoissonProcess => Arrivals::PoissonProcess,
                        ArrivalsName::Authors => Arrivals::Authors,
                    },
                    seed: args.seed,
                };
                let report = torpor::reproduce(grid, progress);
                print(args.format, &report, torpor_text::report)
            }
            Self::Tidal(args) => {
                let grid = TidalGrid {
                    per_minute: args.per_minute,
                    seconds: args.seconds,
                    seed: args.seed,
                };
                let report = tidal::reproduce(grid, progress);
                print(args.format, &report, tidal_text::report)
            }
        }
    }
}

fn print<T: Serialize>(
    format: ReportFormat,
    report: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<()> {
    let shown = match format {
        ReportFormat::Text => text(report),
        ReportFormat::Json => serde_json::to_string_pretty(report)? + "\n",
    };
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(shown.as_bytes())
        .context("writing the report")
}
