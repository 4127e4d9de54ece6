//! The cluster's namespaces: watched where stores are made for them.

use std::sync::Arc;

use tetris_service_kit::shutdown::until;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::own_report::OwnReport;
use crate::config::ConfigFile;
use crate::csi::{Namespaces, NoCluster};
use crate::kubernetes::{KnownNamespaces, client, watch_namespaces};

/// Namespaces for questions. The watch of them goes to `tasks`, and ends when `stopped`.
pub(crate) async fn namespaces(
    config: &ConfigFile,
    own: &Arc<OwnReport>,
    stopped: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) -> Arc<dyn Namespaces> {
    let csi = config.csi.as_ref();
    if csi.is_none_or(|csi| csi.per_namespace.is_none()) {
        return Arc::new(NoCluster::new("no store is a namespace's own"));
    }
    let client = match client(None).await {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "namespaces get no stores of their own");
            own.count(1);
            return Arc::new(NoCluster::new(error.to_string()));
        }
    };
    let (sender, living) = watch::channel(None);
    let known = KnownNamespaces::new(client.clone(), living);
    let report = Arc::clone(own);
    let faults = move |_| report.count(1);
    tasks.spawn(watch_namespaces(
        client,
        sender,
        faults,
        until(stopped.clone()),
    ));
    Arc::new(known)
}
