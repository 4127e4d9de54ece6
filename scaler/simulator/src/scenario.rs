//! Scenario of a simulation.

use serde::Serialize;
use tetris_scaler_core::{FieldError, Rate, ScaleInConfig};
use tetris_simulation::TraceKind;

use crate::catalog::Application;
use crate::cluster::MAX_NODES;
use crate::error::SimulationError;
use crate::trace::MAX_RPS;

/// Applications, requests and a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Applications that run together.
    pub applications: Vec<Application>,
    /// Kind of the trace.
    pub kind: TraceKind,
    /// Mean load of each application, times its [`load_factor`](Application::load_factor).
    pub mean: Rate,
    /// Length of the trace, in seconds.
    pub seconds: u64,
    /// Time at the start that does not count, in seconds.
    pub warm_up_s: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Seed of traces, branches and latencies.
    pub seed: u64,
    /// Assumptions about the platform.
    pub platform: Platform,
}

/// Assumptions about the platform, the same for all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Platform {
    /// Interval between passes of the scaler, in seconds.
    pub tick_s: u64,
    /// Time for which a load must stay low before a release, in milliseconds.
    pub window_ms: u64,
    /// Time to start container and runtime, before tensors are loaded, in microseconds.
    pub sandbox_us: u64,
    /// Throughput of loading tensors that are not in the store, in bytes per second. From the
    /// paper: Bit-M (3.5 GB) takes 7.9 s from the page cache, and 2.8 s with all tensors shared
    /// (5.2).
    pub load_bytes_per_s: u64,
    /// Minimum latency of a batch, in thousandths of its configuration's latency, which is the
    /// maximum.
    pub least_latency_permille: u64,
    /// Headroom of scaling out and in.
    pub scale_in: ScaleInConfig,
}

impl Default for Platform {
    fn default() -> Self {
        Self {
            tick_s: 5,
            window_ms: 60_000,
            sandbox_us: 1_000_000,
            load_bytes_per_s: 3_500_000_000 * 10 / 51,
            least_latency_permille: 800,
            scale_in: ScaleInConfig {
                keep_percent: 35,
                scale_out_percent: 20,
                ..ScaleInConfig::default()
            },
        }
    }
}

/// Maximum length of a trace, in seconds: a day.
pub const MAX_SECONDS: u64 = 86_400;

impl Scenario {
    /// Mean load of one of its applications.
    pub fn mean_of(&self, application: Application) -> Rate {
        self.mean.times(application.load_factor())
    }

    pub(crate) fn check(&self) -> Result<(), SimulationError> {
        let rps = self.mean.micro_rps() / 1_000_000;
        let last_s = self.seconds.saturating_sub(1);
        check("applications", self.applications.len() as u64, 1, 1_000)?;
        check("mean_rps", rps, 0, MAX_RPS)?;
        check("seconds", self.seconds, 1, MAX_SECONDS)?;
        check("warm_up_s", self.warm_up_s, 0, last_s)?;
        check("nodes", self.nodes as u64, 1, MAX_NODES as u64)?;
        self.platform.check()
    }
}

impl Platform {
    fn check(&self) -> Result<(), SimulationError> {
        check("tick_s", self.tick_s, 1, 3_600)?;
        check("sandbox_us", self.sandbox_us, 0, 3_600_000_000)?;
        check("load_bytes_per_s", self.load_bytes_per_s, 1, 1 << 50)?;
        let least = self.least_latency_permille;
        check("least_latency_permille", least, 1, 1_000)
    }
}

fn check(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), SimulationError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(FieldError {
        field,
        value,
        min,
        max,
    }
    .into())
}
