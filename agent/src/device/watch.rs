//! Release of references in the store once every object has arrived, even if no caller waits.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::DeviceError;
use super::lease::Lease;

/// Maximum time that the wait keeps a lease alive that nothing else uses.
const SLICE: Duration = Duration::from_millis(50);

/// Starts a thread that waits for the arrival, unless every object has already arrived.
pub(super) fn watch(lease: &Arc<Lease>) -> Result<(), DeviceError> {
    if lease.wait(None, Duration::ZERO)? {
        return Ok(());
    }
    let lease = Arc::downgrade(lease);
    let thread = thread::Builder::new().name("tetris-device".to_owned());
    let started = thread.spawn(move || while !is_over(&lease) {});
    started.map(drop).map_err(DeviceError::Thread)
}

/// Waits for one time slice. Returns true if nothing is left to wait for.
fn is_over(lease: &Weak<Lease>) -> bool {
    let Some(lease) = lease.upgrade() else {
        return true;
    };
    match lease.wait(None, SLICE) {
        Ok(over) => over,
        Err(error) => {
            tracing::warn!(%error, "a model will not arrive in device memory");
            lease.let_go_of_host();
            true
        }
    }
}
