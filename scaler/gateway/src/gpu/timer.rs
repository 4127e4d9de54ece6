//! Timer of a pool: refuses requests that cannot be in time any more, and lets the policy look
//! again at those that wait for a busy GPU.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::shared::SharedPool;

/// Shortest pause: an event that changes nothing must not spin.
const LEAST: Duration = Duration::from_millis(1);

/// Runs until the pool is gone.
pub(super) async fn run(pool: Weak<SharedPool>) {
    loop {
        let Some(pumping) = pool.upgrade() else {
            return;
        };
        let pause = pumping.pump();
        let changed = Arc::clone(&pumping.changed);
        drop(pumping);
        match pause {
            Some(pause) => tokio::select! {
                () = tokio::time::sleep(pause.max(LEAST)) => {}
                () = changed.notified() => {}
            },
            None => changed.notified().await,
        }
    }
}
