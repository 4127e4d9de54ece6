//! Waiting for something to become true.

use std::time::{Duration, Instant};

/// Longer than anything here takes, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Polls until there is a value.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Polls until it is so.
pub fn until_so(what: &str, mut so: impl FnMut() -> bool) {
    until(what, || so().then_some(()));
}
