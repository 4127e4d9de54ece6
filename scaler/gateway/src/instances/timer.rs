//! Timer of a function with waiting requests: ends their wait, and ejections.

use std::sync::Arc;
use std::time::Duration;

use super::shared::SharedQueue;
use super::state::State;

/// Lets the timer know of a request that waits, and starts it if none runs.
pub(super) fn wake(queue: &Arc<SharedQueue>, state: &mut State) {
    if !state.starts_timer() {
        queue.changed.notify_one();
        return;
    }
    let timer = run(Arc::clone(queue));
    match &queue.runtime {
        Some(runtime) => drop(runtime.spawn(timer)),
        None => drop(tokio::spawn(timer)),
    }
}

/// Runs until no request waits.
async fn run(queue: Arc<SharedQueue>) {
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
