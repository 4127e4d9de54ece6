//! The task that follows an engine by its state.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::client;
use super::engine::Engine;
use super::shared::SharedGroup;

/// Shortest pause between two questions: requests that fail ask for one each.
const LEAST: Duration = Duration::from_millis(50);

/// Asks the engine, in this interval and after failures, until the group is gone.
pub(super) async fn run(group: Weak<SharedGroup>, engine: Arc<Engine>, interval: Duration) {
    loop {
        let question = {
            let Some(asking) = group.upgrade() else {
                return;
            };
            asking.lock().group.question(engine.id)
        };
        if let Some(question) = question {
            let answer = client::is_sleeping(&engine).await;
            let Some(told) = group.upgrade() else { return };
            let finding = match &answer {
                Ok(finding) => *finding,
                Err(error) => error.finding(),
            };
            if told.learned(engine.id, question, finding) {
                let (group, engine) = (&told.name, &engine.settings.name);
                match answer {
                    Ok(finding) => tracing::info!(group, engine, ?finding, "engine found"),
                    Err(error) => tracing::warn!(group, engine, %error, "engine unusable"),
                }
            }
        }
        tokio::time::sleep(LEAST).await;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = engine.changed.notified() => {}
        }
    }
}
