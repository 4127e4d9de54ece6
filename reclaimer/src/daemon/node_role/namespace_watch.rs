//! The watch of the cluster's namespaces.

use std::sync::Arc;

use tetris_service_kit::shutdown::until;
use tokio::sync::watch;

use crate::csi::Namespaces;
use crate::kubernetes::{KnownNamespaces, client, watch_namespaces};
use crate::metrics::Metrics;
use crate::report::ErrorClass;

/// Watches the namespaces until `stopped`. Returns an error if there is no client for the API
/// server.
pub(super) async fn watched_namespaces(
    metrics: &Arc<Metrics>,
    stopped: watch::Receiver<bool>,
) -> Result<Arc<dyn Namespaces>, String> {
    let client = client(None).await.map_err(|error| error.to_string())?;
    let (sender, living) = watch::channel(None);
    let known = KnownNamespaces::new(client.clone(), living);
    let metrics = Arc::clone(metrics);
    tokio::spawn(watch_namespaces(
        client,
        sender,
        move |_| metrics.error(ErrorClass::Kubernetes, None),
        until(stopped),
    ));
    Ok(Arc::new(known))
}
