//! Figures of a run.

use serde::Serialize;

use crate::gpu::record::{GpuRecords, Record};

use super::functions::Function;
use super::setting::TidalSetting;
use super::system::{TidalSystem, decode_us, has_template};

/// Ends of the stages of figure 19b, in percent. Each begins where the one before ends.
pub const STAGES: [u64; 6] = [50, 75, 90, 95, 99, 100];

/// Figures of a run. A request that left counts with the time for which it waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TidalOutcome {
    /// Number of requests.
    pub requests: u64,
    /// Requests that left before they got a GPU.
    pub timeouts: u64,
    /// Requests whose model was loaded.
    pub cold: u64,
    /// Mean time to the first token, in microseconds.
    pub mean_us: u64,
    /// The same, of requests of functions without a template in Tidal-DK-6G.
    pub others_mean_us: u64,
    /// Time to the first token of the slowest of 1 %, 2 % and so on to 100 % of the requests, in
    /// microseconds: the CDF.
    pub percentiles_us: Vec<u64>,
    /// Mean time to the first token within each of [`STAGES`], in microseconds.
    pub stages_us: [u64; 6],
    /// Time for which GPUs were busy, in thousandths of the run.
    pub busy_permille: u64,
}

impl TidalOutcome {
    pub(super) fn of(setting: &TidalSetting, system: TidalSystem, records: &GpuRecords) -> Self {
        let functions = Function::all();
        let ttft_us = |record: &Record| {
            let function = functions.get(record.function as usize);
            let decode_us = function.map_or(0, |entry| decode_us(setting, entry));
            let router_us = if system == TidalSystem::ServerlessLlm {
                setting.router_us
            } else {
                0
            };
            let waited_us = setting.timeout_s * 1_000_000;
            let latency = record.latency_us.map(|us| us.saturating_sub(decode_us));
            latency.unwrap_or(waited_us) + router_us
        };
        let is_other = |record: &&Record| {
            let function = functions.get(record.function as usize);
            function.is_some_and(|function| !has_template(setting, function))
        };
        let all = &records.requests;
        let mut sorted: Vec<u64> = all.iter().map(ttft_us).collect();
        sorted.sort_unstable();
        let others: Vec<u64> = all.iter().filter(is_other).map(ttft_us).collect();
        let count = |test: fn(&&Record) -> bool| all.iter().filter(test).count() as u64;
        let mut from = 0;
        let stages_us = STAGES.map(|percent| {
            let to = place(sorted.len(), percent);
            let stage = sorted.get(from..to).unwrap_or(&[]);
            from = to;
            mean(stage)
        });
        let gpu_us = u128::from(setting.seconds) * 1_000_000 * records.busy_us.len() as u128;
        let busy_us: u64 = records.busy_us.iter().sum();
        Self {
            requests: all.len() as u64,
            timeouts: count(|entry| entry.latency_us.is_none()),
            cold: count(|entry| entry.missed),
            mean_us: mean(&sorted),
            others_mean_us: mean(&others),
            percentiles_us: (1..=100)
                .map(|percent| percentile(&sorted, percent))
                .collect(),
            stages_us,
            busy_permille: (u128::from(busy_us) * 1_000 / gpu_us.max(1)) as u64,
        }
    }

    /// Time to the first token of the slowest of `percent` % of the requests, in microseconds.
    pub fn percentile_us(&self, percent: usize) -> u64 {
        let at = percent.saturating_sub(1);
        self.percentiles_us.get(at).copied().unwrap_or(0)
    }
}

/// Number of the fastest requests that are `percent` % of `count`, rounded up.
const fn place(count: usize, percent: u64) -> usize {
    (count * percent as usize).div_ceil(100)
}

fn percentile(sorted: &[u64], percent: u64) -> u64 {
    let at = place(sorted.len(), percent).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

fn mean(values: &[u64]) -> u64 {
    let sum: u64 = values.iter().sum();
    sum.checked_div(values.len() as u64).unwrap_or(0)
}
