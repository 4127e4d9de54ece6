//! The task that follows an executor by its page.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::client::{self, CallError};
use super::executor::Executor;
use super::shared::SharedPool;

/// Pause between two pages while a model is on its way, and the shortest one at all times.
const LOADING: Duration = Duration::from_millis(20);
/// Least pause after a page, in multiples of the time that reading it took: large pages must not take a thread's time.
const REST: u32 = 9;

/// Asks for the executor's page, at this interval and after each change, until the pool or the
/// executor is gone.
pub(super) async fn run(pool: Weak<SharedPool>, executor: Arc<Executor>, interval: Duration) {
    loop {
        let Some(asking) = pool.upgrade() else { return };
        let Some(question) = asking.question(&executor) else {
            return;
        };
        let memory = asking.pages.clone();
        drop(asking);
        let answer = client::page(&executor, question.parts, &memory).await;
        let Some(told) = pool.upgrade() else { return };
        let begun = Instant::now();
        let loads = match answer {
            Ok(page) => told.learn(&executor, question, &page.text),
            Err(error @ CallError::TooLong { .. }) => {
                told.refuse(&executor, &error.to_string());
                false
            }
            Err(CallError::NoRoom(error)) => {
                // It has answered, and is asked again.
                tracing::debug!(executor = %executor.endpoint.address, "no memory for its page: {error}");
                false
            }
            Err(error) => {
                told.lost(&executor, &error.to_string());
                false
            }
        };
        drop(told);
        let rest = begun.elapsed().saturating_mul(REST);
        tokio::time::sleep(LOADING.min(interval).max(rest)).await;
        if !loads {
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(LOADING)) => {}
                () = executor.changed.notified() => {}
            }
        }
    }
}
