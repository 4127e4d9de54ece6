//! From the watch of the API server to the engine.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::until;
use crate::keep_warm::WarmSet;
use crate::metrics::Metrics;
use crate::reclaimer::Reclaimer;
use crate::reclaimer::engine::Command;

/// Follows what pods of the node declare, where the configuration says so, until the daemon stops.
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
    let watched = watch_pods(config, warm, Arc::clone(metrics), until(stopped));
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

#[cfg(feature = "kubernetes")]
async fn watch_pods(
    config: crate::config::ConfigFile,
    warm: watch::Sender<WarmSet>,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    use crate::kubernetes::{Fault, WatchOptions, client, watch as watch_node};
    use crate::report::ErrorClass;

    let node = config.node.unwrap_or_default();
    let options = WatchOptions::try_new(&node, &config.kubernetes.annotation);
    let client = client(None).await;
    let (client, options) = match (client, options) {
        (Ok(client), Ok(options)) => (client, options),
        (client, options) => {
            let errors = [
                client.err().map(|error| error.to_string()),
                options.err().map(|error| error.to_string()),
            ];
            for error in errors.into_iter().flatten() {
                tracing::error!(
                    error,
                    "declarations of pods are not followed: reclaiming goes by locks and by what was known"
                );
                metrics.error(ErrorClass::Kubernetes, None);
            }
            return stop.await;
        }
    };
    let faults = |fault| {
        let errors = match fault {
            Fault::Watch => 1,
            Fault::Declarations(items) => items,
        };
        (0..errors).for_each(|_| metrics.error(ErrorClass::Kubernetes, None));
    };
    watch_node(client, options, warm, faults, stop).await;
}

#[cfg(not(feature = "kubernetes"))]
async fn watch_pods(
    _config: crate::config::ConfigFile,
    _warm: watch::Sender<WarmSet>,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    tracing::error!("field `kubernetes.enabled`: this build has no support for Kubernetes");
    metrics.error(crate::report::ErrorClass::Kubernetes, None);
    stop.await;
}
