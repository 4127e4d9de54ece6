//! Part of a file.

use std::fmt;

use serde::Serialize;

pub(super) const SECOND_US: u64 = 1_000_000;
pub(super) const MINUTE_S: u64 = 60;

/// Longest window, in seconds: a year.
const MAX_WINDOW_S: u64 = 366 * 86_400;

/// Part of a file that a run takes, by the file's own clock.
///
/// The clock of Azure Functions 2019 begins with the file's first minute. The others begin at their zero, which the
/// first request of a file may be far from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    start_minutes: u64,
    seconds: u64,
}

impl Window {
    /// Returns a window of `seconds` from `start_minutes` on. A window has a second at least and a year at most, and
    /// starts before 2^32 minutes.
    pub fn new(start_minutes: u64, seconds: u64) -> Self {
        Self {
            start_minutes: start_minutes.min(u64::from(u32::MAX)),
            seconds: seconds.clamp(1, MAX_WINDOW_S),
        }
    }

    /// Length, in seconds.
    pub const fn seconds(&self) -> u64 {
        self.seconds
    }

    /// First minute.
    pub const fn start_minutes(&self) -> u64 {
        self.start_minutes
    }

    /// Minute after the last.
    pub(super) const fn end_minutes(&self) -> u64 {
        self.start_minutes + self.seconds.div_ceil(MINUTE_S)
    }

    /// Returns the time since the window's start, in microseconds, of a time in the file; `None` outside the window.
    pub(super) fn since_start_us(&self, at_us: u64) -> Option<u64> {
        let since_us = at_us.checked_sub(self.start_minutes * MINUTE_S * SECOND_US)?;
        (since_us < self.seconds * SECOND_US).then_some(since_us)
    }

    /// Number of seconds of a minute, counted from the window's start, within the window.
    pub(super) fn seconds_of(&self, minute: u64) -> u64 {
        self.seconds.saturating_sub(minute * MINUTE_S).min(MINUTE_S)
    }

    /// Returns the time in a run of `run_s` seconds for a time since the window's start, both in microseconds: a
    /// shorter run compresses the window.
    pub fn run_us(&self, since_us: u64, run_s: u64) -> u64 {
        (u128::from(since_us) * u128::from(run_s) / u128::from(self.seconds)) as u64
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "minutes {} to {}",
            self.start_minutes,
            self.end_minutes()
        )
    }
}
