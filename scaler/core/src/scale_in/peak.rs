//! Largest load within a window of time.

use std::collections::VecDeque;

use thiserror::Error;

use crate::error::FieldError;
use crate::rate::Rate;

/// Number of parts of a window; more samples than that take no more memory.
const PARTS: u64 = 64;
/// Maximum window: a week, in milliseconds.
const MAX_WINDOW_MS: u64 = 7 * 24 * 3_600_000;

/// Largest load measured within the last window.
///
/// A falling load counts once it has stayed low for a whole window; a rising one counts at once.
/// Keeps at most 66 numbers: the largest load of each 64th of the window. So a load counts for up
/// to a 64th longer than the window, never shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadPeak {
    window_ms: u64,
    since_ms: Option<u64>,
    last_ms: u64,
    /// Number of the part and its largest load, ascending by part.
    parts: VecDeque<(u64, Rate)>,
}

/// A measurement older than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "found a load measured at {at_ms} ms, expected at least {last_ms} ms, the time of the last one"
)]
pub struct PeakError {
    /// Time of this measurement, in milliseconds.
    pub at_ms: u64,
    /// Time of the last one, in milliseconds.
    pub last_ms: u64,
}

impl LoadPeak {
    /// Creates a window of `window_ms` milliseconds, from 64 ms to a week.
    ///
    /// # Errors
    ///
    /// Fails if `window_ms` is out of range.
    pub fn try_new(window_ms: u64) -> Result<Self, FieldError> {
        FieldError::check("window_ms", window_ms, PARTS, MAX_WINDOW_MS)?;
        Ok(Self {
            window_ms,
            since_ms: None,
            last_ms: 0,
            parts: VecDeque::new(),
        })
    }

    /// Adds a measurement at `at_ms`. A gap of a window or more starts over, as the load within it
    /// is unknown.
    ///
    /// # Errors
    ///
    /// Fails if the measurement is older than the last one.
    pub fn measured(&mut self, at_ms: u64, load: Rate) -> Result<(), PeakError> {
        let last_ms = self.last_ms;
        if self.since_ms.is_some() && at_ms < last_ms {
            return Err(PeakError { at_ms, last_ms });
        }
        if self.since_ms.is_none() || at_ms.saturating_sub(last_ms) >= self.window_ms {
            self.since_ms = Some(at_ms);
            self.parts.clear();
        }
        self.last_ms = at_ms;
        self.forget(at_ms);
        let part = at_ms / self.part_ms();
        match self.parts.back_mut() {
            Some((last, peak)) if *last == part => *peak = load.max(*peak),
            _ => self.parts.push_back((part, load)),
        }
        Ok(())
    }

    /// Returns the largest load of the window that ends at `now_ms`. Returns `None` before
    /// measurements cover a window, and once the last one is a window old.
    pub fn at(&self, now_ms: u64) -> Option<Rate> {
        let covered = now_ms.checked_sub(self.since_ms?)? >= self.window_ms;
        let fresh = now_ms.checked_sub(self.last_ms)? < self.window_ms;
        if !covered || !fresh {
            return None;
        }
        let first = self.first_part(now_ms);
        let parts = self.parts.iter().filter(|(part, _)| *part >= first);
        parts.map(|(_, peak)| *peak).max()
    }

    fn forget(&mut self, now_ms: u64) {
        let first = self.first_part(now_ms);
        while self.parts.pop_front_if(|(part, _)| *part < first).is_some() {}
    }

    fn first_part(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.window_ms) / self.part_ms()
    }

    fn part_ms(&self) -> u64 {
        self.window_ms.div_ceil(PARTS).max(1)
    }
}
