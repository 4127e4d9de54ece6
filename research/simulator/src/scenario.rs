//! Scenario of a simulation.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tetris_scaler_core::{FieldError, MAX_ALPHA, Rate};

use crate::catalog::{Application, ModelAssumptions};
use crate::cluster::MAX_NODES;
use crate::error::SimulationError;
use crate::platform::Platform;
use crate::recorded::TraceInput;
use crate::trace::{MAX_RPS, TraceShape};

/// Applications, requests and a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// Applications that run together.
    pub applications: Vec<Application>,
    /// Requests.
    pub trace: TraceInput,
    /// Mean load of SVT; those of the others are multiples of it.
    pub mean: Rate,
    /// Length of the trace, in seconds.
    pub seconds: u64,
    /// Time at the start that does not count, in seconds.
    pub warm_up_s: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Seed of traces, branches and latencies.
    pub seed: u64,
    /// Source of the loads that the scaler sees.
    pub loads: LoadSource,
    /// Invented inputs, and the operator's defaults.
    pub assumptions: Assumptions,
}

/// Source of the loads that the scaler sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LoadSource {
    /// A query of Prometheus: a mean of the last scrapes, every few seconds
    #[default]
    Prometheus,
    /// The gateways' counts, each second
    Gateways,
}

/// Inputs of a simulation that are neither the paper's nor chosen with the scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assumptions {
    /// Operator, cluster and engines.
    pub platform: Platform,
    /// Models and loads.
    pub models: ModelAssumptions,
    /// Requests over time.
    pub trace: TraceShape,
}

/// Maximum length of a trace, in seconds: a day.
pub const MAX_SECONDS: u64 = 86_400;

impl Scenario {
    /// Mean load of one of its applications.
    pub fn mean_of(&self, application: Application) -> Rate {
        let models = &self.assumptions.models;
        let mean = u128::from(self.mean.micro_rps()) * u128::from(models.load_permille) / 1_000;
        Rate::from_micro_rps(u64::try_from(mean).unwrap_or(u64::MAX))
            .times(models.load_factor(application))
    }

    /// Mean load of the application at a place of `applications`.
    pub(crate) fn mean_at(&self, place: usize) -> Rate {
        let by_file = match &self.trace {
            TraceInput::Generated(_) => None,
            TraceInput::Recorded(loads) => loads.mean_of(self.number_of(place)),
        };
        let application = self.applications.get(place);
        let by_itself = || application.map_or(Rate::ZERO, |&application| self.mean_of(application));
        by_file.unwrap_or_else(by_itself)
    }

    /// Number of the application at that place among all copies of all applications, which is the same if it runs by itself.
    pub(crate) fn number_of(&self, place: usize) -> usize {
        let application = self.applications.get(place);
        let before = self.applications.iter().take(place);
        let copy = before.filter(|&other| Some(other) == application).count();
        let mut all = Application::ALL.iter();
        let first = all.position(|other| Some(other) == application);
        copy * Application::ALL.len() + first.unwrap_or(0)
    }

    /// Interval between passes of the scaler, in seconds. With loads from gateways, which change all the time, it is the
    /// operator's shortest.
    pub(crate) const fn interval_s(&self) -> u64 {
        match self.loads {
            LoadSource::Prometheus => self.assumptions.platform.interval_s,
            LoadSource::Gateways => 1,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SimulationError> {
        let rps = self.mean.micro_rps() / 1_000_000;
        let last_s = self.seconds.saturating_sub(1);
        check("applications", self.applications.len() as u64, 1, 1_000)?;
        check("mean_rps", rps, 0, MAX_RPS)?;
        check("seconds", self.seconds, 1, MAX_SECONDS)?;
        check("warm_up_s", self.warm_up_s, 0, last_s)?;
        check("nodes", self.nodes as u64, 1, MAX_NODES as u64)?;
        self.assumptions.check()
    }
}

impl Assumptions {
    /// Checks every field that could make a simulation fail or never end.
    fn check(&self) -> Result<(), SimulationError> {
        let Self {
            platform,
            models,
            trace,
        } = self;
        check("interval_s", platform.interval_s, 1, 3_600)?;
        check("scrape_s", platform.scrape_s, 1, 3_600)?;
        let scrape_s = platform.scrape_s;
        check("load_window_s", platform.load_window_s, scrape_s, 86_400)?;
        check("start_us", platform.start_us, 0, 3_600_000_000)?;
        check("disk_bytes_per_s", platform.disk_bytes_per_s, 1, 1 << 50)?;
        check("cache_bytes_per_s", platform.cache_bytes_per_s, 1, 1 << 50)?;
        let least = platform.least_latency_permille;
        check("least_latency_permille", least, 1, 1_000)?;
        check("neighbors_permille", platform.neighbors_permille, 0, 10_000)?;
        check("copied_permille", platform.copied_permille, 0, 1_000)?;
        check("photons_cpu_millis", platform.photons_cpu_millis, 1, 64_000)?;
        let alpha = platform.alpha_bytes_per_millicore;
        check("alpha_bytes_per_millicore", alpha, 0, MAX_ALPHA)?;
        check("load_permille", models.load_permille, 0, 100_000)?;
        check("ss_load", models.ss_load, 0, 100)?;
        check("qa_text_load", models.qa_text_load, 0, 100)?;
        check("branch_permille", models.branch_permille, 0, 1_000)?;
        check("serial_permille", models.serial_permille, 0, 1_000)?;
        for (field, permille) in [
            ("work_permille", models.work_permille),
            ("thread_permille", models.thread_permille),
            ("once_permille", models.once_permille),
            ("slo_permille", models.slo_permille),
            ("private_permille", models.private_permille),
            ("request_permille", models.request_permille),
        ] {
            check(field, permille, 0, 16_000)?;
        }
        check("max_cpu_millis", models.max_cpu_millis, 1_000, 64_000)?;
        check("noise_permille", trace.noise_permille, 0, 1_000)?;
        check("period_s", trace.period_s, 2, MAX_SECONDS)?;
        check("night_permille", trace.night_permille, 0, 1_000)?;
        check("burst_every_s", trace.burst_every_s, 1, MAX_SECONDS)?;
        check("burst_permille", trace.burst_permille, 0, 16_000)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::{OperatorDefaults, ScaleInConfig};

    #[test]
    fn the_default_run_has_the_operators_defaults() {
        let platform = Platform::default();
        let defaults = OperatorDefaults {
            interval_seconds: platform.interval_s,
            window_seconds: platform.window_s,
            consolidate_after_seconds: platform.consolidate_after_s,
            alpha_bytes_per_millicore: platform.alpha_bytes_per_millicore,
            scale_in: ScaleInConfig {
                keep_percent: platform.keep_percent as u32,
                scale_out_percent: platform.scale_out_percent as u32,
                ..OperatorDefaults::default().scale_in
            },
        };
        assert_eq!(defaults, OperatorDefaults::default());
    }
}
