//! Capacity of an instance.

use tetris_scaler_core::{Configuration, Rate, Slo};

/// Time for which an instance is idle between an answer and its next request, in microseconds: the
/// way to the gateway and back.
const TURNAROUND_US: u64 = 500;
/// An instance takes requests ahead, if it would be idle for more than this part of its time
/// otherwise: one in ten.
const IDLE_PART: u64 = 10;

/// The requests that an instance executes at once, and how fast: from its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Maximum batch size (b), at least 1.
    pub batch: u32,
    /// Number of batches at a time (p), at least 1.
    pub concurrency: u32,
    /// Latency of one batch (l), in microseconds, at least 1.
    pub latency_us: u64,
    /// Longest time for which the instance waits to fill a batch, in microseconds.
    pub batch_wait_us: u64,
    /// Measured rate; `None` for `b p / l`.
    pub rate: Option<Rate>,
}

impl Capacity {
    /// Returns the capacity of a profile's configuration in a function with the objective `slo`.
    pub fn of(configuration: &Configuration, slo: Slo) -> Self {
        Self {
            batch: configuration.batch(),
            concurrency: configuration.concurrency(),
            latency_us: configuration.latency_us(),
            batch_wait_us: configuration.batch_wait_us(slo),
            rate: Some(configuration.rate()),
        }
    }

    /// Number of requests in execution at once, b p.
    pub fn slots(&self) -> u64 {
        u64::from(self.batch.max(1)).saturating_mul(u64::from(self.concurrency.max(1)))
    }

    /// Number of requests that the instance may have: its slots, and as many as keep them busy while
    /// an answer and the next request are on their way.
    pub fn room(&self) -> u64 {
        let idle = self.slots().saturating_mul(TURNAROUND_US * IDLE_PART);
        self.slots()
            .saturating_add((idle / self.latency_us.max(1)).min(self.slots()))
    }

    /// Requests per second in millionths, at least 1.
    pub(crate) fn micro_rps(&self) -> u64 {
        let computed = || {
            let micro =
                u128::from(self.slots()) * 1_000_000_000_000 / u128::from(self.latency_us.max(1));
            u64::try_from(micro).unwrap_or(u64::MAX)
        };
        self.rate.map_or_else(computed, Rate::micro_rps).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::ConfigurationSpec;

    fn capacity(batch: u32, concurrency: u32, latency_us: u64) -> Capacity {
        Capacity {
            batch,
            concurrency,
            latency_us,
            batch_wait_us: 0,
            rate: None,
        }
    }

    #[test]
    fn short_requests_are_taken_ahead_and_long_ones_are_not() {
        assert_eq!(capacity(4, 2, 80_000).room(), 8);
        assert_eq!(capacity(1, 1, 5_001).room(), 1);
        assert_eq!(capacity(1, 1, 5_000).room(), 2);
        assert_eq!(
            capacity(1, 4, 1_000).room(),
            8,
            "never more than are executed"
        );
    }

    #[test]
    fn the_measured_rate_counts_before_the_computed_one() {
        assert_eq!(capacity(4, 2, 80_000).micro_rps(), 100_000_000);
        let measured = Capacity {
            rate: Some(Rate::from_rps(130)),
            ..capacity(4, 2, 80_000)
        };
        assert_eq!(measured.micro_rps(), 130_000_000);
        let extreme = Capacity {
            batch: u32::MAX,
            concurrency: u32::MAX,
            ..capacity(1, 1, 0)
        };
        assert_eq!((extreme.micro_rps(), extreme.room()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_batch_of_a_profile_waits_as_its_objective_permits() {
        let spec = ConfigurationSpec {
            cpu_millis: 1,
            own_bytes: 1,
            shared_bytes: 0,
            batch: 2,
            concurrency: 1,
            latency_us: 100,
            rate_millis: None,
            gpu: None,
        };
        let slo = Slo::try_from_us(500).unwrap();
        let of = |spec| Capacity::of(&Configuration::try_new(spec).unwrap(), slo);
        assert_eq!(of(spec).batch_wait_us, 40);
        assert_eq!(of(ConfigurationSpec { batch: 1, ..spec }).batch_wait_us, 0);
    }
}
