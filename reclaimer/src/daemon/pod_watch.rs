//! The watch of this node's pods, for their declarations.

use tokio::sync::watch;

use crate::config::ConfigFile;
use crate::keep_warm::WarmSet;
use crate::kubernetes::{Fault, WatchOptions, client, watch as watch_node};

/// Watches the API server until `stop` is done. Without a client the declarations stay as they are.
/// `on_errors` is called with the number of each fault's errors.
pub(super) async fn watch_pods(
    config: ConfigFile,
    warm: watch::Sender<WarmSet>,
    on_errors: impl Fn(u64),
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
                on_errors(1);
            }
            return stop.await;
        }
    };
    let faults = |fault| {
        on_errors(match fault {
            Fault::Watch => 1,
            Fault::Declarations(items) => items,
        });
    };
    watch_node(client, options, warm, faults, stop).await;
}
