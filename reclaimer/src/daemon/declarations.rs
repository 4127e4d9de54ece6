//! Declarations of pods on their way from the watch to the engine.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pod_watch::watch_pods;
use crate::engine::Reclaimer;
use crate::engine::commands::Command;
use crate::keep_warm::WarmSet;
use crate::metrics::Metrics;
use crate::report::ErrorClass;
use tetris_service_kit::shutdown::until;

/// Follows the declarations of this node's pods until the daemon stops, if it is configured.
pub(super) fn follow(
    reclaimer: &Reclaimer,
    commands: &Sender<Command>,
    metrics: &Arc<Metrics>,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<()> {
    let config = reclaimer.config().file.clone();
    if !config.kubernetes.enabled {
        return tokio::spawn(async {});
    }
    let (warm, changes) = watch::channel(reclaimer.declared().clone());
    let handed_on = hand_on(changes, commands.clone());
    let metrics = Arc::clone(metrics);
    let on_errors =
        move |errors| (0..errors).for_each(|_| metrics.error(ErrorClass::Kubernetes, None));
    let watched = watch_pods(config, warm, on_errors, until(stopped));
    tokio::spawn(async {
        // When the watch ends, so does its channel.
        tokio::join!(watched, handed_on);
    })
}

async fn hand_on(mut changes: watch::Receiver<WarmSet>, commands: Sender<Command>) {
    while changes.changed().await.is_ok() {
        let warm = changes.borrow_and_update().clone();
        if commands.send(Command::Declared(warm)).is_err() {
            return;
        }
    }
}
