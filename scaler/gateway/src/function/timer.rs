//! Timer of a function with waiting requests: ends their wait, and ejections.

use std::sync::Arc;
use std::time::Duration;

use super::queue::FunctionQueue;

/// Runs until no request waits.
pub(super) async fn run(queue: Arc<FunctionQueue>) {
    loop {
        let now_us = queue.now_us();
        let next_us = {
            let mut state = queue.lock();
            state.pump(now_us);
            state.next_us()
        };
        let Some(next_us) = next_us else {
            return;
        };
        // Never at once: an event that changes nothing must not spin.
        let pause = Duration::from_micros(next_us.saturating_sub(now_us).max(1_000));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = queue.changed.notified() => {}
        }
    }
}
