//! Arguments and reports of `scaler-simulate`.

pub mod dispatch_html;
pub mod dispatch_text;
pub mod gpu_faas_text;
pub mod html;
pub mod reproduce;
pub mod sweep_html;
pub mod sweep_text;
pub mod tetris_text;
pub mod text;
pub mod tidal_text;
pub mod torpor_text;

use clap::Parser;
use tetris_scaler_core::Rate;
use tetris_scaler_simulator::cluster::MAX_NODES;
use tetris_scaler_simulator::dispatch::{DispatchGrid, MAX_REQUESTS};
use tetris_scaler_simulator::{Grid, LoadSource, MAX_SECONDS, Policy, RecordedLoads};
use tetris_simulation::traces::{TraceArgs, TraceError};
use tetris_simulation::{ReportArgs, TraceKind};

use reproduce::Reproduce;

/// Arguments that say nothing about rules of dispatch.
const SCALING: [&str; 11] = [
    "sweep",
    "trace",
    "nodes",
    "rps",
    "copies",
    "kinds",
    "policies",
    "seconds",
    "loads",
    "scale_out_percent",
    "keep_percent",
];

/// Simulate policies that scale the four applications of the Tetris paper, on generated or real
/// traces of requests
#[derive(Debug, Parser)]
#[command(
    name = "scaler-simulate",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true
)]
pub struct Args {
    /// Another paper whose evaluation is repeated instead.
    #[command(subcommand)]
    pub reproduce: Option<Reproduce>,
    /// Number of nodes; two in eight have 80 CPUs and 256 GB, the others 32 CPUs and 128 GB
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=MAX_NODES as u64))]
    nodes: u64,
    /// Mean load of SVT and QA-Audio, in requests per second; the others have multiples of it
    #[arg(long, value_name = "N", conflicts_with = "trace_rate", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    rps: u64,
    /// Copies of each application in the run of all together; 0 for no such run
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=100))]
    copies: u64,
    /// Kinds of generated traces, separated by commas
    #[arg(long, value_name = "KIND,...", conflicts_with = "trace", value_delimiter = ',', default_values_t = TraceKind::ALL, value_parser = kind)]
    kinds: Vec<TraceKind>,
    /// Policies, separated by commas
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_values_t = Policy::ALL, value_parser = policy)]
    policies: Vec<Policy>,
    /// Length of a trace in seconds [default: 1800; 600 in a sweep]
    #[arg(long, value_parser = clap::value_parser!(u64).range(10..=MAX_SECONDS))]
    seconds: Option<u64>,
    /// Seed of traces, branches and latencies
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Source of the loads that the scaler sees
    #[arg(long, value_enum, default_value_t = LoadSource::Prometheus)]
    loads: LoadSource,
    /// Spare capacity below which instances start, in percent of the load [default: the operator's]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=900))]
    scale_out_percent: Option<u64>,
    /// Spare capacity that a release leaves, in percent of the load [default: the operator's]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=900))]
    keep_percent: Option<u64>,
    /// Vary every invented input between a low and a high value, with all applications together
    #[arg(long, conflicts_with = "trace_rate")]
    pub sweep: bool,
    /// Number of random combinations of inputs, with --sweep
    #[arg(long, value_name = "N", requires = "sweep", default_value_t = 40, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    random: u64,
    /// Compare rules of dispatch instead: requests to instances of unequal size, none of which start or
    /// stop
    #[arg(long, conflicts_with_all = SCALING)]
    pub dispatch: bool,
    /// Simulate the service that standard input describes as JSON: equal instances of one function, requests and times of
    /// batches as measured (`tests/batch-fill`)
    #[arg(long, conflicts_with_all = SCALING, conflicts_with = "dispatch")]
    pub service: bool,
    /// Load of the instances in percent of their capacity, with --dispatch
    #[arg(long, value_name = "PERCENT", requires = "dispatch", conflicts_with_all = SCALING, default_value_t = 85, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    load_percent: u64,
    /// Longest wait of a batch to fill, in percent of what its latency leaves of the objective, with --dispatch [default:
    /// as the operator sets it]
    #[arg(long, value_name = "PERCENT", requires = "dispatch", conflicts_with_all = SCALING, value_parser = clap::value_parser!(u64).range(0..=100))]
    batch_wait_percent: Option<u64>,
    /// Number of requests of each case, with --dispatch
    #[arg(long, value_name = "N", requires = "dispatch", conflicts_with_all = SCALING, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MAX_REQUESTS))]
    requests: u64,
    /// Arguments for the form of the report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// Arguments for a file of requests, last because their heading counts for all that follow.
    #[command(flatten)]
    trace: TraceArgs,
}

impl Args {
    /// Number of random combinations of inputs in a sweep.
    pub const fn random(&self) -> usize {
        self.random as usize
    }

    /// Returns the parameters of a comparison of rules of dispatch.
    pub fn dispatch_grid(&self) -> DispatchGrid {
        DispatchGrid {
            requests: self.requests,
            load_percent: self.load_percent,
            seed: self.seed,
            batch_wait_percent: self.batch_wait_percent,
            ..DispatchGrid::default()
        }
    }

    /// Returns the grid of runs, with the requests of a file.
    ///
    /// # Errors
    ///
    /// Fails if the file of requests cannot be read, or has too few functions.
    pub fn grid(&self) -> Result<Grid, TraceError> {
        let grid = Grid::default();
        let seconds = self
            .seconds
            .unwrap_or(if self.sweep { 600 } else { grid.seconds });
        let mut assumptions = grid.assumptions;
        let platform = &mut assumptions.platform;
        platform.scale_out_percent = self.scale_out_percent.unwrap_or(platform.scale_out_percent);
        platform.keep_percent = self.keep_percent.unwrap_or(platform.keep_percent);
        let recorded = self.recorded(seconds)?;
        let kinds = if recorded.is_none() {
            self.kinds.clone()
        } else {
            Vec::new()
        };
        Ok(Grid {
            assumptions,
            kinds,
            recorded,
            policies: self.policies.clone(),
            together: self.copies as usize,
            mean: Rate::from_rps(self.rps),
            seconds,
            warm_up_s: grid.warm_up_s.min(seconds / 5),
            nodes: self.nodes as usize,
            seed: self.seed,
            loads: self.loads,
            ..grid
        })
    }

    /// Reads the requests of a file for a run of `seconds` seconds.
    fn recorded(&self, seconds: u64) -> Result<Option<RecordedLoads>, TraceError> {
        let Some(file) = self.trace.read(seconds)? else {
            return Ok(None);
        };
        let copies = self.copies as usize;
        let useful = RecordedLoads::applications(copies);
        Ok(Some(RecordedLoads {
            sample: file.trace.sample(file.rule, useful, self.seed)?,
            copies,
            rate: file.micro_rps.map(Rate::from_micro_rps),
        }))
    }
}

fn kind(name: &str) -> Result<TraceKind, String> {
    named(&TraceKind::ALL, name)
}

fn policy(name: &str) -> Result<Policy, String> {
    named(&Policy::ALL, name)
}

/// Returns the element of `all` with that name, ignoring case.
fn named<T: Copy + ToString>(all: &[T], name: &str) -> Result<T, String> {
    let same = |one: &&T| one.to_string().eq_ignore_ascii_case(name);
    let same_name = all.iter().find(same).copied();
    same_name.ok_or_else(|| {
        let names: Vec<String> = all.iter().map(T::to_string).collect();
        format!("expected one of {}", names.join(", "))
    })
}
