//! Time in microseconds, as dispatchers take it.

use std::time::{Duration, Instant};

/// A clock of one queue. It starts at zero.
#[derive(Debug)]
pub(crate) struct Clock {
    began: Instant,
}

impl Clock {
    /// Starts a clock.
    pub(crate) fn start() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// Time since the start, in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }
}

/// A time in microseconds; saturates.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
