//! The watch of this node's pods, for their declarations.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::ConfigFile;
use crate::keep_warm::WarmSet;
use crate::kubernetes::{Fault, WatchOptions, client, watch as watch_node};
use crate::metrics::Metrics;
use crate::report::ErrorClass;

/// Watches the API server until `stop` is done. Without a client the declarations stay as they are.
pub(super) async fn watch_pods(
    config: ConfigFile,
    warm: watch::Sender<WarmSet>,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
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
                    "declarations of pods are not followed: the reclaimer goes by locks and the last known declarations"
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
