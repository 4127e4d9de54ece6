//! The server of the inventory in a build without the feature `kubernetes`: an error in the log.

use anyhow::Result;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::serving::Serving;
use crate::http::PageSource;

/// Reports that this build cannot check clients.
#[expect(clippy::unused_async, reason = "the other server asks for a client")]
pub(super) async fn serve(
    _: &Serving,
    _: TcpListener,
    _: &impl PageSource,
    _: impl Iterator<Item = String>,
    no_api_server: impl FnOnce(),
) -> Result<Option<JoinHandle<()>>> {
    tracing::error!("field `network.inventory`: this build has no support for Kubernetes");
    no_api_server();
    Ok(None)
}
