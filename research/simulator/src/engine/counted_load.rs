//! Load of a function as gateways count it.

use tetris_scaler_core::{Arrivals, Backlog, LOAD_MEAN_MS, Rate};

/// Arrivals of the last seconds.
///
/// The clock begins the length of a mean before the simulation, when requests came at their mean.
#[derive(Clone, Debug)]
pub(super) struct CountedLoad {
    arrivals: Arrivals,
    /// Requests since the last measurement.
    count: u64,
    measured_ms: u64,
}

impl CountedLoad {
    pub(super) fn new(before: Rate) -> Self {
        let mut arrivals = Arrivals::default();
        let seconds = LOAD_MEAN_MS / 1_000;
        let requests = before.micro_rps().saturating_mul(seconds) / 1_000_000;
        arrivals.add(0, LOAD_MEAN_MS, requests, LOAD_MEAN_MS);
        Self {
            arrivals,
            count: 0,
            measured_ms: LOAD_MEAN_MS,
        }
    }

    pub(super) const fn arrived(&mut self) {
        self.count += 1;
    }

    /// Returns the load at `now_us`, while these requests wait.
    pub(super) fn load(&mut self, now_us: u64, backlog: Backlog) -> Rate {
        let now_ms = LOAD_MEAN_MS + now_us / 1_000;
        let requests = std::mem::take(&mut self.count);
        self.arrivals
            .add(self.measured_ms, now_ms, requests, LOAD_MEAN_MS);
        self.measured_ms = now_ms;
        self.arrivals.load(now_ms, LOAD_MEAN_MS, backlog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_a_mean_of_ten_seconds_and_of_those_before_the_start() {
        let mut counted = CountedLoad::new(Rate::from_rps(20));
        let none = Backlog::default();
        assert_eq!(counted.load(0, none), Rate::from_rps(20));
        let mut load = Rate::ZERO;
        for second in 1..=5 {
            for _ in 0..24 {
                counted.arrived();
            }
            load = counted.load(second * 1_000_000, none);
        }
        assert_eq!(load, Rate::from_rps(22));
    }
}
