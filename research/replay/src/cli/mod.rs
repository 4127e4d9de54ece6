//! Arguments and reports of `reclaimer-replay`.

pub mod html;
pub mod text;

use clap::Parser;
use tetris_reclaimer_replay::compare::{Grid, HOURS, SEEDS, SIZES_PERCENT};
use tetris_simulation::ReportArgs;
use tetris_simulation::traces::{TraceArgs, TraceError};

/// Replay generated or real request traces against reclaim policies and find the right default
///
/// The default policy rests on the default arguments.
#[derive(Debug, Parser)]
#[command(name = "reclaimer-replay", version, max_term_width = 100)]
pub struct Args {
    /// Sizes of the store, in percent of the distinct bytes of all models; separated by commas
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_values_t = SIZES_PERCENT, value_parser = clap::value_parser!(u64).range(0..=1000))]
    sizes_percent: Vec<u64>,
    /// Seeds of models and traces, separated by commas
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = SEEDS)]
    seeds: Vec<u64>,
    /// Length of a trace in hours
    #[arg(long, value_name = "N", default_value_t = HOURS, value_parser = clap::value_parser!(u64).range(1..=24 * 366))]
    hours: u64,
    /// Arguments for the form of the report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Arguments for a file of requests, last because their heading counts for all that follow.
    #[command(flatten)]
    trace: TraceArgs,
}

impl Args {
    /// Returns the grid of runs, with the requests of a file in place of generated ones.
    ///
    /// # Errors
    ///
    /// Fails if the file of requests cannot be read.
    pub fn grid(&self) -> Result<Grid, TraceError> {
        let file = self.trace.read(self.hours * 3_600)?;
        let grid = Grid::default();
        let kinds = if file.is_none() {
            grid.kinds
        } else {
            Vec::new()
        };
        Ok(Grid {
            kinds,
            file,
            sizes_percent: self.sizes_percent.clone(),
            seeds: self.seeds.clone(),
            hours: self.hours,
        })
    }
}
