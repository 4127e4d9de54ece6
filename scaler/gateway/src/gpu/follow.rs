//! The task that follows an executor by its page.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::client;
use super::executor::Executor;
use super::shared::SharedPool;

/// Pause between two pages while a model is on its way, and the shortest one at all times.
const LOADING: Duration = Duration::from_millis(20);

/// Asks for the executor's page, at this interval and after each change, until the pool or the
/// executor is gone.
pub(super) async fn run(pool: Weak<SharedPool>, executor: Arc<Executor>, interval: Duration) {
    loop {
        let Some(asking) = pool.upgrade() else { return };
        let Some(question) = asking.question(executor.gpu) else {
            return;
        };
        drop(asking);
        let answer = client::status(&executor, question.parts).await;
        let Some(told) = pool.upgrade() else { return };
        let loads = match answer {
            Ok(status) => {
                told.learn(executor.gpu, question, &status);
                status.loads()
            }
            Err(error) => {
                told.lost(executor.gpu, &error.to_string());
                false
            }
        };
        drop(told);
        tokio::time::sleep(LOADING.min(interval)).await;
        if !loads {
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(LOADING)) => {}
                () = executor.changed.notified() => {}
            }
        }
    }
}
