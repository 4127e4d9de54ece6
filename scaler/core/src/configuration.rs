//! Configurations: the 5-tuples of Tetris 3.2.

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::gpu::GpuNeeds;
use crate::limits::{MAX_BATCH, MAX_CPU_MILLIS, MAX_MEMORY_BYTES, MAX_RATE_MILLIS};
use crate::rate::{MAX_LATENCY_US, Rate, Slo};

/// Thousandths in a request times microseconds in a second.
const MILLIS_AND_MICROS: u64 = 1_000_000_000;
/// Part of the time beyond a batch's latency in which it may wait to be filled: one in ten. Nearly all batches are full
/// then where the load needs it, and with less load requests are answered sooner than with a longer wait.
const WAIT_PART: u64 = 10;
/// Longest wait of a batch, in microseconds: what the reference instance takes.
const MAX_BATCH_WAIT_US: u64 = 60_000_000;

/// Fields of a configuration, before they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationSpec {
    /// CPU of an instance (c), in millicores.
    pub cpu_millis: u64,
    /// Private part of the memory m, in bytes: runtime, activations, batch buffers.
    pub own_bytes: u64,
    /// Part of m that instances on one node share through the tensor store, in bytes.
    pub shared_bytes: u64,
    /// Maximum batch size (b).
    pub batch: u32,
    /// Number of concurrent inference threads (p).
    pub concurrency: u32,
    /// Latency of one batch (l), in microseconds.
    pub latency_us: u64,
    /// Measured rate of one instance, in thousandths of a request per second; `None` for `b p / l`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_millis: Option<u64>,
    /// Needs on a GPU; `None` for a configuration without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuNeeds>,
}

/// A measured tuple `<c, m, b, p, l>` of a profile, with m split into a private and a shared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "ConfigurationSpec", into = "ConfigurationSpec")]
pub struct Configuration(ConfigurationSpec);

impl Configuration {
    /// Checks every field. All but the shared memory are at least 1.
    ///
    /// # Errors
    ///
    /// The first field out of range.
    pub fn try_new(spec: ConfigurationSpec) -> Result<Self, FieldError> {
        let check = FieldError::check;
        check("cpu_millis", spec.cpu_millis, 1, MAX_CPU_MILLIS)?;
        check("own_bytes", spec.own_bytes, 1, MAX_MEMORY_BYTES)?;
        check("shared_bytes", spec.shared_bytes, 0, MAX_MEMORY_BYTES)?;
        check("batch", spec.batch.into(), 1, MAX_BATCH.into())?;
        check("concurrency", spec.concurrency.into(), 1, MAX_BATCH.into())?;
        check("latency_us", spec.latency_us, 1, MAX_LATENCY_US)?;
        if let Some(rate_millis) = spec.rate_millis {
            check("rate_millis", rate_millis, 1, MAX_RATE_MILLIS)?;
        }
        if let Some(gpu) = &spec.gpu {
            gpu.check()?;
        }
        Ok(Self(spec))
    }

    /// CPU (c), in millicores.
    pub const fn cpu_millis(&self) -> u64 {
        self.0.cpu_millis
    }

    /// Private memory of an instance, in bytes.
    pub const fn own_bytes(&self) -> u64 {
        self.0.own_bytes
    }

    /// Needs on a GPU; `None` without one.
    pub const fn gpu(&self) -> Option<&GpuNeeds> {
        self.0.gpu.as_ref()
    }

    /// Private memory of an instance on its node and on its GPU together, in bytes: its cost.
    pub const fn private_bytes(&self) -> u64 {
        match &self.0.gpu {
            // Each part is at most 2^50.
            Some(gpu) => self.0.own_bytes.saturating_add(gpu.own_bytes),
            None => self.0.own_bytes,
        }
    }

    /// Memory that instances on one node share, in bytes.
    pub const fn shared_bytes(&self) -> u64 {
        self.0.shared_bytes
    }

    /// Memory of an instance that shares nothing (m), in bytes. On a GPU it has the tensors a second
    /// time.
    pub const fn memory_bytes(&self) -> u64 {
        let copies = if self.0.gpu.is_some() { 2 } else { 1 };
        let tensors = self.0.shared_bytes.saturating_mul(copies);
        // Each part is at most 2^50.
        self.private_bytes().saturating_add(tensors)
    }

    /// Maximum batch size (b).
    pub const fn batch(&self) -> u32 {
        self.0.batch
    }

    /// Number of concurrent threads (p).
    pub const fn concurrency(&self) -> u32 {
        self.0.concurrency
    }

    /// Latency of a batch (l), in microseconds.
    pub const fn latency_us(&self) -> u64 {
        self.0.latency_us
    }

    /// Requests per second that one instance carries, constraint (4): as measured, or else
    /// `b p / l`. With l at a percentile the latter is below the former: most batches are faster.
    pub fn rate(&self) -> Rate {
        match self.0.rate_millis {
            Some(rate_millis) => Rate::from_milli_rps(rate_millis),
            None => Rate::of(self.0.batch, self.0.concurrency, self.0.latency_us),
        }
    }

    /// Requests per microseconds: numerator and denominator of the rate, below 2^32 each.
    pub(crate) const fn rate_fraction(&self) -> (u64, u64) {
        match self.0.rate_millis {
            Some(rate_millis) => (rate_millis, MILLIS_AND_MICROS),
            // At most 2^12 each.
            None => (
                (self.0.batch as u64).saturating_mul(self.0.concurrency as u64),
                self.0.latency_us,
            ),
        }
    }

    /// Smallest objective that the configuration meets, in microseconds: l, or 2 l if requests wait
    /// for a batch to fill, constraints (2) and (3).
    pub const fn least_slo_us(&self) -> u64 {
        if self.0.batch == 1 {
            self.0.latency_us
        } else {
            self.0.latency_us.saturating_mul(2)
        }
    }

    /// Longest time for which an instance waits for a batch to fill in a function with the objective `slo`, in
    /// microseconds: 0 for single requests, and for batches a tenth of the `slo - l` that constraint (3) leaves. The rest
    /// is for the way to the instance and the wait for a thread. At most a minute.
    pub const fn batch_wait_us(&self, slo: Slo) -> u64 {
        if self.0.batch == 1 {
            return 0;
        }
        let window_us = slo.us().saturating_sub(self.0.latency_us);
        let wait_us = window_us / WAIT_PART;
        if wait_us < MAX_BATCH_WAIT_US {
            wait_us
        } else {
            MAX_BATCH_WAIT_US
        }
    }

    /// Returns true if the configuration meets `slo`, constraints (2) and (3): `l <= slo` for
    /// single requests, `l <= slo / 2` for batches.
    pub const fn meets(&self, slo: Slo) -> bool {
        self.least_slo_us() <= slo.us()
    }
}

impl TryFrom<ConfigurationSpec> for Configuration {
    type Error = FieldError;

    fn try_from(spec: ConfigurationSpec) -> Result<Self, FieldError> {
        Self::try_new(spec)
    }
}

impl From<Configuration> for ConfigurationSpec {
    fn from(configuration: Configuration) -> Self {
        configuration.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: ConfigurationSpec = ConfigurationSpec {
        cpu_millis: 1_000,
        own_bytes: 10,
        shared_bytes: 20,
        batch: 1,
        concurrency: 1,
        latency_us: 50_000,
        rate_millis: None,
        gpu: None,
    };

    #[test]
    fn every_field_has_a_range_and_its_error_names_it() {
        type Edit = fn(&mut ConfigurationSpec);
        let edits: [(&str, Edit); 9] = [
            ("cpu_millis", |spec| spec.cpu_millis = 0),
            ("own_bytes", |spec| spec.own_bytes = 0),
            ("shared_bytes", |spec| spec.shared_bytes = u64::MAX),
            ("batch", |spec| spec.batch = 4_097),
            ("concurrency", |spec| spec.concurrency = 0),
            ("latency_us", |spec| spec.latency_us = 0),
            ("latency_us", |spec| spec.latency_us = u64::MAX),
            ("rate_millis", |spec| spec.rate_millis = Some(0)),
            ("rate_millis", |spec| spec.rate_millis = Some(u64::MAX)),
        ];
        for (field, edit) in edits {
            let mut spec = SPEC;
            edit(&mut spec);
            let error = Configuration::try_new(spec).unwrap_err();
            assert_eq!(error.field, field);
        }
        let error = Configuration::try_new(ConfigurationSpec { batch: 0, ..SPEC }).unwrap_err();
        assert_eq!(error.to_string(), "`batch` is 0, expected 1 to 4096");
    }

    #[test]
    fn the_measured_rate_counts_before_the_computed_one() {
        let of = |rate_millis| {
            Configuration::try_new(ConfigurationSpec {
                rate_millis,
                ..SPEC
            })
            .unwrap()
        };
        assert_eq!(of(None).rate(), Rate::from_rps(20));
        assert_eq!(of(Some(27_500)).rate(), Rate::from_milli_rps(27_500));
        let json = serde_json::to_string(&of(None)).unwrap();
        assert!(!json.contains("rate_millis"), "{json}");
        let json = serde_json::to_string(&of(Some(1))).unwrap();
        assert_eq!(
            serde_json::from_str::<Configuration>(&json).unwrap(),
            of(Some(1))
        );
    }

    #[test]
    fn single_requests_may_use_the_whole_objective_and_batches_half_of_it() {
        let slo = |us| Slo::try_from_us(us).unwrap();
        let single = Configuration::try_new(SPEC).unwrap();
        assert!(single.meets(slo(50_000)) && !single.meets(slo(49_999)));
        let batched = Configuration::try_new(ConfigurationSpec { batch: 2, ..SPEC }).unwrap();
        assert!(batched.meets(slo(100_000)) && !batched.meets(slo(99_999)));
        // 3 us fit into half of 6 us but not into half of 5 us: the half is not rounded.
        let short = ConfigurationSpec {
            batch: 2,
            latency_us: 3,
            ..SPEC
        };
        let short = Configuration::try_new(short).unwrap();
        assert!(short.meets(slo(6)) && !short.meets(slo(5)));
    }

    #[test]
    fn a_batch_waits_for_a_tenth_of_what_its_latency_leaves() {
        let slo = |us| Slo::try_from_us(us).unwrap();
        let of = |batch| Configuration::try_new(ConfigurationSpec { batch, ..SPEC }).unwrap();
        assert_eq!(of(1).batch_wait_us(slo(200_000)), 0);
        assert_eq!(of(4).batch_wait_us(slo(200_000)), 15_000);
        assert_eq!(
            of(4).batch_wait_us(slo(100_000)),
            5_000,
            "the least objective"
        );
        assert_eq!(of(4).batch_wait_us(slo(40_000)), 0, "not met anyway");
        assert_eq!(of(4).batch_wait_us(slo(7_200_000_000)), 60_000_000);
    }
}
