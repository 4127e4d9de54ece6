//! Rules of a function's dispatch.

use tetris_scaler_core::Slo;

/// Rules of a function's dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rules {
    /// Objective; a request's deadline is its arrival plus this.
    pub slo: Slo,
    /// Maximum number of waiting requests.
    pub queue: usize,
    /// Longest time for which a request waits for an instance, in microseconds. It is above the
    /// objective, since the first request of an idle function waits for a start.
    pub wait_us: u64,
    /// True if a request is refused that would miss its deadline, and not only one that would wait
    /// for too long.
    pub reject_late: bool,
    /// Time over which a new instance gets its full share, in microseconds.
    pub slow_start_us: u64,
    /// Ejection of instances that fail.
    pub ejection: Ejection,
    /// Number of gateways that dispatch to the same instances, each without knowledge of the others'
    /// requests: each uses that part of every instance's room, at least one request.
    pub gateways: u32,
}

impl Rules {
    /// Returns the usual rules for an objective.
    pub const fn new(slo: Slo) -> Self {
        Self {
            slo,
            queue: 1_000,
            wait_us: 60_000_000,
            reject_late: false,
            slow_start_us: 10_000_000,
            ejection: Ejection::USUAL,
            gateways: 1,
        }
    }
}

/// Ejection of instances that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// Number of failures in a row that eject an instance, at least 1.
    pub failures: u32,
    /// Time of the first ejection, in microseconds; doubled by each further one.
    pub first_us: u64,
    /// Longest time of an ejection, in microseconds.
    pub longest_us: u64,
    /// Largest part of the instances that are ejected at a time, in percent, rounded up to whole
    /// instances. Where more fail, the fault is likely not theirs.
    pub most_percent: u32,
}

impl Ejection {
    /// Three failures eject an instance for a second, then for two, up to a minute; half of all
    /// instances at most.
    pub const USUAL: Self = Self {
        failures: 3,
        first_us: 1_000_000,
        longest_us: 60_000_000,
        most_percent: 50,
    };
}
