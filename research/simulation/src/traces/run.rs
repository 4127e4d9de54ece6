//! Requests of a function in a run.

use super::function::{RecordedFunction, Requests};
use super::scale::{Factor, ScaledTimes};
use super::window::{MINUTE_S, SECOND_US, Window};
use crate::Rng;

/// Random numbers of times within a minute are independent of others.
const STREAM: u64 = 1 << 43;

/// A request of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunRequest {
    /// Time in the run, in microseconds.
    pub at_us: u64,
    /// Duration in milliseconds, if the file has it; a shorter run does not compress it.
    pub duration_ms: Option<u32>,
}

impl RecordedFunction {
    /// Returns the requests in a run of `run_s` seconds, scaled by `factor`, in order. Requests of a minute come at random
    /// times within it. `stream` separates functions of one seed.
    pub fn run(
        &self,
        window: Window,
        run_s: u64,
        factor: Factor,
        seed: u64,
        stream: u64,
    ) -> Vec<RunRequest> {
        let minute_us = window.run_us(MINUTE_S * SECOND_US, run_s);
        match &self.requests {
            Requests::Timed(requests) => {
                let times = requests
                    .iter()
                    .map(|request| window.run_us(request.at_us, run_s));
                let ends = (run_s * SECOND_US, minute_us);
                let scaled = ScaledTimes::new(times.collect(), factor, ends, seed, stream);
                let in_run = scaled.map(|time| RunRequest {
                    at_us: time.at_us,
                    duration_ms: requests
                        .get(time.source)
                        .and_then(|source| source.duration_ms),
                });
                in_run.collect()
            }
            Requests::PerMinute(counts) => {
                let mut rng = Rng::new(seed, STREAM + stream);
                let mut counter = factor.counter(&mut rng);
                let mut all = Vec::new();
                for minute in counts {
                    let start_s = u64::from(minute.minute) * MINUTE_S;
                    let span_s = window.seconds_of(u64::from(minute.minute));
                    let [from, to] = [start_s, start_s + span_s]
                        .map(|second| window.run_us(second * SECOND_US, run_s));
                    let copies = counter.scale(u64::from(minute.count));
                    all.extend((0..copies).map(|_| RunRequest {
                        at_us: from + rng.below(to - from),
                        duration_ms: None,
                    }));
                }
                all.sort_unstable();
                all
            }
        }
    }
}
