//! The watch of this node's pods in a build without the feature `kubernetes`: an error in the log.

use std::sync::Arc;

use tokio::sync::watch;

use crate::config::ConfigFile;
use crate::keep_warm::WarmSet;
use crate::metrics::Metrics;
use crate::report::ErrorClass;

/// Reports that this build cannot watch, and waits for `stop`.
pub(super) async fn watch_pods(
    _: ConfigFile,
    _: watch::Sender<WarmSet>,
    metrics: Arc<Metrics>,
    stop: impl Future<Output = ()>,
) {
    tracing::error!("field `kubernetes.enabled`: this build has no support for Kubernetes");
    metrics.error(ErrorClass::Kubernetes, None);
    stop.await;
}
