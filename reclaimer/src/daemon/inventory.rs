//! The server of the inventory for other hosts and pods.

use std::time::Duration;

use anyhow::{Context, Result};
use tetris_service_kit::bound_tls::BoundTls;
use tetris_service_kit::token_reviews::{ReviewLimits, TokenReviews};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::serving::Serving;
use crate::http::{Gate, PageSource, SERVICE, gated};
use crate::kubernetes::client;

/// Longest time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// Serves `clients` the inventory over TLS. Without a way to the API server no one can be checked:
/// there is no server then, `no_api_server` is called, and the daemon goes on.
///
/// # Errors
/// When the system gives no random bytes for a key.
pub(super) async fn serve(
    serving: &Serving,
    listener: TcpListener,
    pages: &impl PageSource,
    clients: impl Iterator<Item = String>,
    no_api_server: impl FnOnce(),
) -> Result<Option<JoinHandle<()>>> {
    let client = match client(None).await {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "nobody can read the inventory: the clients cannot be checked");
            no_api_server();
            return Ok(None);
        }
    };
    let limits = pages.limits();
    let tls = BoundTls::try_new(SERVICE, HANDSHAKE, limits.transport());
    let tls = tls.context("field `network.inventory`")?;
    let reviews = TokenReviews::new(client, tls.audience());
    let gate = Gate::new(reviews, clients, ReviewLimits::default());
    tracing::info!(inventory = %listener.local_addr()?, audience = tls.audience(), "serving the inventory over TLS");
    Ok(Some(serving.serve(
        listener,
        tls,
        gated(pages.tensors(), gate),
        limits,
    )))
}
