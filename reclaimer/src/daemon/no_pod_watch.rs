//! The watch of this node's pods in a build without the feature `kubernetes`: an error in the log.

use tokio::sync::watch;

use crate::config::ConfigFile;
use crate::keep_warm::WarmSet;

/// Reports that this build cannot watch, and waits for `stop`.
pub(super) async fn watch_pods(
    _: ConfigFile,
    _: watch::Sender<WarmSet>,
    on_errors: impl Fn(u64),
    stop: impl Future<Output = ()>,
) {
    tracing::error!("field `kubernetes.enabled`: this build has no support for Kubernetes");
    on_errors(1);
    stop.await;
}
