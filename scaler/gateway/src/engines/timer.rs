//! Timer of a group: acts when a residence, a turn or the time of a drain has passed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::shared::SharedGroup;

/// Shortest pause: an event that changes nothing must not spin.
const LEAST: Duration = Duration::from_millis(1);

/// Runs until the group is gone.
pub(super) async fn run(group: Weak<SharedGroup>) {
    loop {
        let Some(pumping) = group.upgrade() else {
            return;
        };
        let changed = Arc::clone(&pumping.changed);
        let pause = pumping.pump();
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
