//! Waits after errors, by what the writes are for.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::state::Key;

/// Wait after an error, doubled with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum wait.
const MOST_WAIT: Duration = Duration::from_mins(2);

/// Functions or models whose last writes failed.
#[derive(Debug, Default)]
pub(in crate::operator) struct BackOff(BTreeMap<Key, Waiting>);

#[derive(Debug, Clone, Copy)]
struct Waiting {
    errors: u32,
    until: Instant,
}

impl BackOff {
    /// Forgets those that are gone.
    pub(in crate::operator) fn retain(&mut self, is_present: impl Fn(&Key) -> bool) {
        self.0.retain(|key, _| is_present(key));
    }

    /// Returns true if `key` waits for no earlier error at `now`.
    pub(in crate::operator) fn is_due(&self, key: &Key, now: Instant) -> bool {
        self.0.get(key).is_none_or(|waiting| waiting.until <= now)
    }

    /// Notes that the writes succeeded.
    pub(in crate::operator) fn succeeded(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// Notes an error. The wait is random within a factor of two, so that not all are tried again at once.
    pub(in crate::operator) fn failed(&mut self, key: Key) {
        let errors = self.0.get(&key).map_or(0, |waiting| waiting.errors);
        let span = FIRST_WAIT.saturating_mul(1_u32.checked_shl(errors).unwrap_or(u32::MAX));
        let span = span.min(MOST_WAIT).mul_f64(rand::random_range(0.5..1.0));
        let now = Instant::now();
        let waiting = Waiting {
            errors: errors.saturating_add(1).min(16),
            until: now.checked_add(span).unwrap_or(now),
        };
        self.0.insert(key, waiting);
    }
}
