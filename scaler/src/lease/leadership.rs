//! Leadership of this replica, with its end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Permission of this replica to act. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// Creates a leadership that never ends, for a single replica.
    pub fn alone() -> Self {
        let century = Duration::from_hours(24 * 365 * 100);
        let leadership = Self::default();
        leadership.set(Instant::now().checked_add(century));
        leadership
    }

    /// Returns the time left to act, or `None` if this replica may not act.
    pub fn remaining(&self) -> Option<Duration> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until?
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// Returns true if this replica may act now.
    pub fn leads(&self) -> bool {
        self.remaining().is_some()
    }

    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}
