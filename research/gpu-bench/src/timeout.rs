//! Time limit of everything that a measure waits for.

use std::time::Duration;

/// Longer than any copy takes: a timeout shows a fault.
pub(crate) const LONG: Duration = Duration::from_mins(10);
