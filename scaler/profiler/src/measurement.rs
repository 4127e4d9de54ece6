//! Measurement of a setting.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{Configuration, ConfigurationSpec, FieldError, MAX_RATE_MILLIS};

use crate::gpu::MeasurementOnGpu;
use crate::latency::{LatencyMicros, Percentile};
use crate::model_profile::{ProfiledConfiguration, ProfiledGpu};
use crate::setting::Setting;

/// Measurement of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// CPU, batch size and concurrency.
    pub setting: Setting,
    /// Private memory in bytes: the limit under which an instance passed, or its peak with a margin
    /// without a cgroup.
    pub own_bytes: u64,
    /// True if an instance passed under a limit of `own_bytes`.
    pub verified: bool,
    /// Latency percentiles with one batch per thread in flight.
    pub latency: LatencyMicros,
    /// Number of answered requests.
    pub requests: u64,
    /// Number of failed requests.
    pub errors: u64,
    /// Answers per second.
    pub requests_per_second: f64,
    /// Measurement on the GPU of the instance, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_gpu: Option<MeasurementOnGpu>,
}

impl Measurement {
    /// Returns the measurement as the resource has it.
    pub fn profiled(&self) -> ProfiledConfiguration {
        ProfiledConfiguration {
            setting: self.setting,
            own_bytes: self.own_bytes,
            latency_micros: self.latency,
            rate_millis: self.rate_millis(),
            gpu_type: self.on_gpu.as_ref().map(|on| on.gpu.kind),
            gpu: self.on_gpu.as_ref().map(ProfiledGpu::from),
        }
    }

    /// Returns the measurement as the scaler's core takes it, with the latency at `percentile`.
    ///
    /// # Errors
    ///
    /// Fails if a value is out of the core's range.
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
            rate_millis: self.rate_millis(),
            gpu: self.on_gpu.as_ref().map(|on| {
                let batch = f64::from(self.setting.batch.max(1));
                on.needs(self.requests_per_second / batch)
            }),
        })
    }

    /// Answers in a thousand seconds, rounded down; `None` without an answer, or beyond the core's
    /// range.
    fn rate_millis(&self) -> Option<u64> {
        let rate_millis = (self.requests_per_second * 1e3) as u64;
        (1..=MAX_RATE_MILLIS)
            .contains(&rate_millis)
            .then_some(rate_millis)
    }
}
