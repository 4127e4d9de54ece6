//! The watch of the cluster's namespaces in a build without the feature `kubernetes`: an error.

use std::sync::Arc;

use tokio::sync::watch;

use crate::csi::Namespaces;
use crate::metrics::Metrics;

/// Returns an error: this build cannot watch.
pub(super) async fn watched_namespaces(
    _: &Arc<Metrics>,
    _: watch::Receiver<bool>,
) -> Result<Arc<dyn Namespaces>, String> {
    Err("this build has no support for Kubernetes".to_owned())
}
