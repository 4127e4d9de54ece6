//! What is known of a setting once it is measured.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{Configuration, ConfigurationSpec, FieldError};

use crate::latency::{LatencyMicros, Percentile};
use crate::model_profile::ProfiledConfiguration;
use crate::setting::Setting;

/// One configuration, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// c, b and p.
    pub setting: Setting,
    /// Memory of its own, in bytes: the limit under which it passed, or without a cgroup what it was seen to take.
    pub own_bytes: u64,
    /// Whether an instance passed under a limit of `own_bytes`.
    pub verified: bool,
    /// Latencies with b p requests under way.
    pub latency: LatencyMicros,
    /// Requests that were answered and counted.
    pub requests: u64,
    /// Requests that failed meanwhile.
    pub errors: u64,
    /// Answers per second.
    pub requests_per_second: f64,
}

impl Measurement {
    /// As the resource has it.
    pub const fn profiled(&self) -> ProfiledConfiguration {
        ProfiledConfiguration {
            setting: self.setting,
            own_bytes: self.own_bytes,
            latency_micros: self.latency,
        }
    }

    /// As the scaler's core takes it, with the latency at `percentile` for l.
    pub fn configuration(
        &self,
        percentile: Percentile,
        shared_bytes: u64,
    ) -> Result<Configuration, FieldError> {
        Configuration::try_new(ConfigurationSpec {
            cpu_millis: self.setting.cpu_millis,
            own_bytes: self.own_bytes,
            shared_bytes,
            batch: self.setting.batch,
            concurrency: self.setting.concurrency,
            latency_us: self.latency.at(percentile),
        })
    }
}
