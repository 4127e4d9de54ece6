//! Sees to it that references in the store are dropped when everything has arrived, whether anybody waits or not.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::DeviceError;
use super::lease::Lease;

/// How long a lease that nobody else has may live on because of the wait for it.
const SLICE: Duration = Duration::from_millis(50);

/// Starts a thread that waits for the arrival, unless everything is there.
pub(super) fn watch(lease: &Arc<Lease>) -> Result<(), DeviceError> {
    if lease.wait(None, Duration::ZERO)? {
        return Ok(());
    }
    let lease = Arc::downgrade(lease);
    let thread = thread::Builder::new().name("tetris-device".to_owned());
    let started = thread.spawn(move || while !is_over(&lease) {});
    started.map(drop).map_err(DeviceError::Thread)
}

/// Waits a little. Returns whether there is nothing to wait for any more.
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
