//! The server of the inventory in a build without the feature `kubernetes`: an error in the log.

use std::sync::Arc;

use anyhow::Result;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::serving::Serving;
use crate::http::Pages;
use crate::metrics::Metrics;
use crate::report::ErrorClass;

/// Reports that this build cannot check clients.
#[expect(clippy::unused_async, reason = "the other server asks for a client")]
pub(super) async fn serve(
    _: &Serving,
    _: TcpListener,
    _: &Pages,
    _: impl Iterator<Item = String>,
    metrics: &Arc<Metrics>,
) -> Result<Option<JoinHandle<()>>> {
    tracing::error!("field `network.inventory`: this build has no support for Kubernetes");
    metrics.error(ErrorClass::Kubernetes, None);
    Ok(None)
}
