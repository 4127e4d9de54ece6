//! Load that instances must carry.

use super::Arrivals;
use crate::rate::Rate;

/// Length of the mean of arrivals, in milliseconds.
pub const LOAD_MEAN_MS: u64 = 10_000;
/// Length of the mean of arrivals that shows what happens now, in milliseconds.
const RECENT_MS: u64 = 2_000;
/// Time within which instances should serve all waiting requests, in seconds.
const DRAIN_SECONDS: u64 = 10;
/// Standard deviations by which recent arrivals exceed the mean, beyond `LEAST_RISE`, where it is no chance.
const DEVIATIONS: u128 = 4;
/// Requests by which they do at least, so that a few requests of a function without load are no rise.
const LEAST_RISE: u128 = 4;

/// Requests of a function that wait for an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Their number.
    pub waiting: u64,
    /// True if one of them has waited for longer than the objective.
    pub is_late: bool,
}

impl Arrivals {
    /// Returns the load that instances must carry, of arrivals known for the `known_ms` milliseconds before
    /// `end_ms`, and with this `backlog`. It is the largest of
    ///
    /// - the mean of the last 10 s;
    /// - for arrivals that rise by more than chance, the mean of the last 2 s;
    /// - while requests are late, the mean of the last 2 s, and the rate that serves all waiting requests within 10 s. That
    ///   rate is at most the larger mean, since requests also pile up while an instance starts.
    pub fn load(&self, end_ms: u64, known_ms: u64, backlog: Backlog) -> Rate {
        let rate = |length_ms: u64| self.rate(end_ms, length_ms.min(known_ms));
        let (mean, recent) = (rate(LOAD_MEAN_MS), rate(RECENT_MS));
        let mut load = mean;
        if known_ms >= LOAD_MEAN_MS && rises(mean, recent) {
            load = load.max(recent);
        }
        if backlog.is_late {
            let drain = Rate::from_rps(backlog.waiting).micro_rps() / DRAIN_SECONDS;
            let drain = Rate::from_micro_rps(drain).min(mean.max(recent));
            load = load.max(recent.plus(drain));
        }
        load
    }
}

/// Returns true if the requests of the last 2 s are more than a Poisson process at the rate `mean` has by chance.
fn rises(mean: Rate, recent: Rate) -> bool {
    // Thousandths of requests.
    let count = |rate: Rate| u128::from(rate.micro_rps()) * u128::from(RECENT_MS) / 1_000_000;
    let expected = count(mean);
    let least = expected.saturating_add(LEAST_RISE * 1_000);
    let above = count(recent).saturating_sub(least);
    above.saturating_mul(above) > DEVIATIONS * DEVIATIONS * 1_000 * expected
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
            arrivals.add(at_ms - 250, at_ms, rps / 4, LOAD_MEAN_MS);
        }
        arrivals
    }

    fn load(arrivals: &Arrivals, waiting: u64, is_late: bool) -> Rate {
        arrivals.load(20_000, 20_000, Backlog { waiting, is_late })
    }

    #[test]
    fn the_load_is_the_mean_of_arrivals_while_no_request_is_late() {
        let steady = arrivals(100, 0, 0);
        for waiting in [0, 50] {
            assert_eq!(load(&steady, waiting, false), Rate::from_rps(100));
        }
        // 220 requests in 2 s where 202 are expected.
        let noisy = arrivals(100, 1_000, 120);
        assert_eq!(load(&noisy, 10, false), Rate::from_rps(102));
    }

    #[test]
    fn a_rise_beyond_chance_counts_at_once() {
        // 400 rps in the last 2 s, a mean of 160.
        let rising = arrivals(100, 2_000, 400);
        assert_eq!(load(&rising, 0, false), Rate::from_rps(400));
        // A few requests of a function without load.
        let rare = arrivals(0, 2_000, 4);
        assert_eq!(load(&rare, 0, false), Rate::from_milli_rps(800));
        let begun = arrivals(100, 2_000, 400).load(20_000, 5_000, Backlog::default());
        assert_eq!(begun, Rate::from_rps(220), "nothing is known of before");
    }

    #[test]
    fn late_requests_count_what_arrives_now_and_the_backlog() {
        let recent = arrivals(100, 2_000, 120);
        assert_eq!(load(&recent, 1, true), Rate::from_milli_rps(120_100));
        assert_eq!(load(&recent, 500, true), Rate::from_rps(170));
        // Requests that pile up while an instance starts do not count for more than as much again.
        assert_eq!(load(&recent, 1_000_000, true), Rate::from_rps(240));
        let falling = arrivals(100, 2_000, 0);
        assert_eq!(load(&falling, 200, true), Rate::from_rps(80));
    }

    #[test]
    fn a_mean_is_over_the_time_that_is_known() {
        let mut begun = Arrivals::default();
        begun.add(0, 2_000, 20, LOAD_MEAN_MS);
        let load = begun.load(2_000, 2_000, Backlog::default());
        assert_eq!(load, Rate::from_rps(10));
    }
}
