//! Reading of one function's load from the pages of the gateways.

use std::collections::BTreeMap;

use tetris_scaler_core::Rate;

use crate::load::LoadError;

/// Length of the mean of arrivals, in milliseconds.
pub(super) const MEAN_MS: u64 = 10_000;
/// Length of the mean of arrivals while requests are late, in milliseconds.
const RECENT_MS: u64 = 2_000;
/// Time within which instances should serve all waiting requests, in seconds.
const DRAIN_SECONDS: u64 = 10;

use super::Arrivals;

/// Load of one function, as all gateways count it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayReading {
    /// Load of the function.
    pub load: Result<Rate, LoadError>,
    /// Loads of its instances by pod: a request per second for each outstanding request, which serves to
    /// compare them.
    pub pods: BTreeMap<String, Rate>,
    /// Latency in service, in microseconds; of several gateways the largest.
    pub latency: Result<u64, LoadError>,
    /// True if a request waits or is served, as far as is known.
    pub is_demanded: bool,
}

/// Returns the load that instances must carry, of a function with these `arrivals`, which are known for the
/// `known_ms` milliseconds before `end_ms`. `waiting` is the number of requests that wait, and `is_late` true if one
/// of them has waited for longer than the objective.
pub fn load_of(
    arrivals: &Arrivals,
    end_ms: u64,
    known_ms: u64,
    waiting: u64,
    is_late: bool,
) -> Rate {
    let rate = |length_ms: u64| arrivals.rate(end_ms, length_ms.min(known_ms));
    let mean = rate(MEAN_MS);
    if !is_late {
        return mean;
    }
    let recent = rate(RECENT_MS);
    let drain = Rate::from_rps(waiting).micro_rps() / DRAIN_SECONDS;
    let drain = Rate::from_micro_rps(drain).min(mean.max(recent));
    mean.max(recent.plus(drain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals every 250 ms for 20 s: `rps` before the last `last_ms`, then `last_rps`.
    fn arrivals(rps: u64, last_ms: u64, last_rps: u64) -> Arrivals {
        let mut arrivals = Arrivals::default();
        for at_ms in (250..=20_000).step_by(250) {
            let rps = if at_ms > 20_000 - last_ms {
                last_rps
            } else {
                rps
            };
            arrivals.add(at_ms - 250, at_ms, rps / 4, MEAN_MS);
        }
        arrivals
    }

    #[test]
    fn the_load_is_the_mean_of_arrivals_while_no_request_is_late() {
        let steady = arrivals(100, 0, 0);
        for waiting in [0, 50] {
            let load = load_of(&steady, 20_000, 20_000, waiting, false);
            assert_eq!(load, Rate::from_rps(100));
        }
        let burst = arrivals(100, 1_000, 200);
        let load = load_of(&burst, 20_000, 20_000, 10, false);
        assert_eq!(load, Rate::from_rps(110));
    }

    #[test]
    fn late_requests_count_what_arrives_now_and_the_backlog() {
        let rising = arrivals(100, 2_000, 400);
        let load = |waiting| load_of(&rising, 20_000, 20_000, waiting, true);
        assert_eq!(load(1), Rate::from_milli_rps(400_100));
        assert_eq!(load(500), Rate::from_rps(450));
        // Requests that pile up while an instance starts do not count for more than as much again.
        assert_eq!(load(1_000_000), Rate::from_rps(800));
        let falling = arrivals(100, 2_000, 0);
        let load = load_of(&falling, 20_000, 20_000, 200, true);
        assert_eq!(load, Rate::from_rps(80));
    }

    #[test]
    fn a_mean_is_over_the_time_that_is_known() {
        let mut begun = Arrivals::default();
        begun.add(0, 2_000, 20, MEAN_MS);
        let load = load_of(&begun, 2_000, 2_000, 0, false);
        assert_eq!(load, Rate::from_rps(10));
    }
}
