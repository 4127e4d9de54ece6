//! Operator, cluster and engines of a scenario.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{OperatorDefaults, ScaleInConfig, ScaleInError, ScaleInPolicy};

/// Operator, cluster and engines, the same for all policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Interval between passes of the scaler, in seconds. The operator's default.
    pub interval_s: u64,
    /// Time for which a load must stay low before a release, in seconds. The operator's default.
    pub window_s: u64,
    /// Steady time after which instances may be replaced, in seconds. The operator's default.
    pub consolidate_after_s: u64,
    /// Cost of CPU (alpha) in plans of DTS, of the exact program and of sharing-aware, in bytes per
    /// millicore. The operator's default.
    pub alpha_bytes_per_millicore: u64,
    /// Headroom that remains after a release, in percent. The operator's default.
    pub keep_percent: u64,
    /// Headroom below which instances start, in percent. The operator's default.
    pub scale_out_percent: u64,
    /// Span of the load's mean, in seconds: `rate(...[1m])`, as in the scaler's example of a
    /// function.
    pub load_window_s: u64,
    /// Interval between Prometheus' scrapes, in seconds. Assumed.
    pub scrape_s: u64,
    /// Time from a decision to a server that begins to load, in microseconds: 2.8 s until an
    /// instance of Bit-M is up with all of its tensors shared (5.2), and 0.6 s behind the scheduling
    /// gate, measured on 20 nodes.
    pub start_us: u64,
    /// Throughput of loading from the disk, in bytes per second. From the paper: Bit-M (3.5 GB)
    /// takes more than 15 s without the page cache, and 2.8 s with all tensors shared (5.2).
    pub disk_bytes_per_s: u64,
    /// Throughput of copying out of the page cache, in bytes per second. From the paper: Bit-M takes
    /// 7.9 s from the page cache (5.2).
    pub cache_bytes_per_s: u64,
    /// Minimum latency of a batch, in thousandths of its configuration's latency, which is the
    /// maximum of an instance alone on its node. Assumed.
    pub least_latency_permille: u64,
    /// Increase of a batch's latency where other instances keep all cores of the node busy, in
    /// thousandths; proportionally less where they keep fewer busy. Assumed.
    pub neighbors_permille: u64,
    /// Time that an unused tensor stays in a store, in seconds. Assumed: the daemon keeps tensors
    /// until it needs room.
    pub keep_alive_s: u64,
    /// Share of a mapped file that engines copy into private memory, in thousandths. Assumed: none,
    /// the best case of the page cache.
    pub copied_permille: u64,
    /// CPU of a thread under Photons, in millicores. Assumed; the paper gives no value.
    pub photons_cpu_millis: u64,
}

const BIT_M_BYTES: u64 = 3_500_000_000;

impl Default for Platform {
    fn default() -> Self {
        let operator = OperatorDefaults::default();
        Self {
            interval_s: operator.interval_seconds,
            window_s: operator.window_seconds,
            consolidate_after_s: operator.consolidate_after_seconds,
            alpha_bytes_per_millicore: operator.alpha_bytes_per_millicore,
            keep_percent: operator.scale_in.keep_percent.into(),
            scale_out_percent: operator.scale_in.scale_out_percent.into(),
            load_window_s: 60,
            scrape_s: 15,
            start_us: 3_400_000,
            disk_bytes_per_s: BIT_M_BYTES * 10 / 122,
            cache_bytes_per_s: BIT_M_BYTES * 10 / 51,
            least_latency_permille: 800,
            neighbors_permille: 200,
            keep_alive_s: 60,
            copied_permille: 0,
            photons_cpu_millis: 2_000,
        }
    }
}

impl Platform {
    /// Returns the headroom of scaling out and in.
    pub(crate) fn scale_in(&self) -> Result<ScaleInPolicy, ScaleInError> {
        let percent = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        ScaleInPolicy::try_new(ScaleInConfig {
            keep_percent: percent(self.keep_percent),
            scale_out_percent: percent(self.scale_out_percent),
            ..OperatorDefaults::default().scale_in
        })
    }
}
