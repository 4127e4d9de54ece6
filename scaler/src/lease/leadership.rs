//! Whether this replica may act, and for how long.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Whether this replica may act. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Leadership(Arc<Mutex<Option<Instant>>>);

impl Leadership {
    /// Leads for ever, for where there is nobody else.
    pub fn alone() -> Self {
        let century = Duration::from_hours(24 * 365 * 100);
        let leadership = Self::default();
        leadership.set(Instant::now().checked_add(century));
        leadership
    }

    /// How long it may still act; `None` if it may not.
    pub fn remaining(&self) -> Option<Duration> {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until?
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
    }

    /// Whether it may act now.
    pub fn leads(&self) -> bool {
        self.remaining().is_some()
    }

    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}
