//! Requests of one function.

use super::window::{MINUTE_S, Window};

/// A function, or a model, with its requests within the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFunction {
    pub(super) name: String,
    pub(super) requests: Requests,
}

/// Requests in the precision of their file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requests {
    /// Numbers of requests of minutes that have any, in order.
    PerMinute(Vec<MinuteCount>),
    /// Requests in order.
    Timed(Vec<TimedRequest>),
}

/// Number of requests of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MinuteCount {
    /// Minute from the start of the window.
    pub(super) minute: u32,
    pub(super) count: u32,
}

/// A request with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimedRequest {
    /// Time from the start of the window, in microseconds.
    pub(super) at_us: u64,
    /// Duration in milliseconds, if the file has it.
    pub(super) duration_ms: Option<u32>,
}

impl RecordedFunction {
    /// Name: the identifiers in the file, joined by `/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of requests within the window.
    pub fn requests(&self) -> u64 {
        match &self.requests {
            Requests::PerMinute(counts) => {
                counts.iter().map(|minute| u64::from(minute.count)).sum()
            }
            Requests::Timed(requests) => requests.len() as u64,
        }
    }
}

/// Adds the requests of a minute, spread evenly over it, to the seconds of a run that play it. `levels` has an element
/// for each second of the run; its unit is a request divided by `60 * levels.len()`, so that no second is rounded.
pub(super) fn spread(minute: MinuteCount, window: Window, levels: &mut [u128]) {
    let run_s = levels.len() as u64;
    let span_s = window.seconds_of(u64::from(minute.minute));
    // Places in units of a second of the window divided by the number of seconds of the run.
    let start = u64::from(minute.minute) * MINUTE_S * run_s;
    let end = start + span_s * run_s;
    let first = start / window.seconds();
    for (level, second) in levels.iter_mut().skip(first as usize).zip(first..) {
        let (from, to) = (second * window.seconds(), (second + 1) * window.seconds());
        if from >= end {
            break;
        }
        let overlap = to.min(end) - from.max(start);
        // Only the last minute of a window may be a part of one; its count is all within the part.
        *level += u128::from(minute.count) * u128::from(overlap * MINUTE_S / span_s.max(1));
    }
}
