//! The server of the inventory for other hosts and pods.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tetris_service_kit::bound_tls::BoundTls;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::serving::Serving;
use crate::http::{AccessLimits, Gate, Limits, Pages, SERVICE};
use crate::kubernetes::{TokenReviews, client};
use crate::metrics::Metrics;
use crate::report::ErrorClass;

/// Longest time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Serves `clients` the inventory over TLS. Without a way to the API server nobody can be checked:
/// there is no server then, and the daemon goes on.
///
/// # Errors
/// When the system gives no random bytes for a key.
pub(super) async fn serve(
    serving: &Serving,
    listener: TcpListener,
    pages: &Pages,
    clients: impl Iterator<Item = String>,
    metrics: &Arc<Metrics>,
) -> Result<Option<JoinHandle<()>>> {
    let client = match client(None).await {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "nobody can read the inventory: the clients cannot be checked");
            metrics.error(ErrorClass::Kubernetes, None);
            return Ok(None);
        }
    };
    let limits = Limits::default();
    let tls = BoundTls::try_new(SERVICE, HANDSHAKE, limits.transport());
    let tls = tls.context("field `network.inventory`")?;
    let reviews = TokenReviews::new(client, tls.audience());
    let gate = Gate::new(reviews, clients, AccessLimits::default());
    tracing::info!(inventory = %listener.local_addr()?, audience = tls.audience(), "serving the inventory over TLS");
    Ok(Some(serving.serve(
        listener,
        tls,
        pages.inventory(gate),
        limits,
    )))
}
