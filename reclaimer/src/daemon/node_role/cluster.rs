//! The cluster's namespaces for the CSI driver: asked for when the first configuration has stores
//! for them.

use std::sync::Arc;

use tokio::sync::watch;

use super::namespace_watch::watched_namespaces;
use crate::csi::{Namespaces, NoCluster};
use crate::metrics::Metrics;

/// The cluster's namespaces, once they are needed.
#[derive(Default)]
pub(super) struct Cluster(Option<Arc<dyn Namespaces>>);

impl Cluster {
    /// Namespaces of no cluster, for a configuration that needs none.
    pub(super) fn none() -> Arc<dyn Namespaces> {
        Arc::new(NoCluster::new("no store is a namespace's own"))
    }

    /// The namespaces, which are watched until `stopped`. A client that cannot be made is tried
    /// again at the next call.
    pub(super) async fn namespaces(
        &mut self,
        enabled: bool,
        metrics: &Arc<Metrics>,
        stopped: &watch::Receiver<bool>,
    ) -> Arc<dyn Namespaces> {
        if let Some(known) = &self.0 {
            return Arc::clone(known);
        }
        if !enabled {
            let problem = "the daemon runs without Kubernetes; set `kubernetes.enabled`, or the flag --kubernetes";
            return Arc::new(NoCluster::new(problem));
        }
        match watched_namespaces(metrics, stopped.clone()).await {
            Ok(known) => Arc::clone(self.0.insert(known)),
            Err(problem) => {
                tracing::error!(problem, "namespaces get no stores of their own");
                metrics.error(crate::report::ErrorClass::Kubernetes, None);
                Arc::new(NoCluster::new(problem))
            }
        }
    }
}
