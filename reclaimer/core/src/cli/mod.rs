//! Arguments and reports of `reclaimer-replay`.

pub mod html;
pub mod text;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use tetris_reclaimer_core::replay::compare::{Grid, HOURS, SEEDS, SIZES_PERCENT};

/// Replay generated request traces against reclaim policies and find the right default
///
/// The default policy rests on the default arguments.
#[derive(Debug, Parser)]
#[command(name = "reclaimer-replay", version)]
pub struct Args {
    /// Sizes of the store, in percent of the distinct bytes of all models
    #[arg(long, value_delimiter = ',', default_values_t = SIZES_PERCENT, value_parser = clap::value_parser!(u64).range(0..=1000))]
    sizes_percent: Vec<u64>,
    /// Seeds of models and traces
    #[arg(long, value_delimiter = ',', default_values_t = SEEDS)]
    seeds: Vec<u64>,
    /// Length of a trace in hours
    #[arg(long, default_value_t = HOURS, value_parser = clap::value_parser!(u64).range(1..=24 * 366))]
    hours: u64,
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Form of the report.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Format {
    /// A table
    Text,
    /// All results, for programs
    Json,
}

impl Args {
    /// The grid of runs.
    pub fn grid(&self) -> Grid {
        Grid {
            sizes_percent: self.sizes_percent.clone(),
            seeds: self.seeds.clone(),
            hours: self.hours,
            ..Grid::default()
        }
    }
}
