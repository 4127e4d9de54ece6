//! gRPC server of the picker.

use std::net::SocketAddr;
use std::sync::Arc;

use tetris_service_kit::clients::Clients;
use tetris_service_kit::http::ListenError;
use tetris_service_kit::shutdown::until;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connection::{self, Service};
use super::parts::Picker;
use crate::config::{Limits, Timeouts};
use crate::server::OpenConnections;

/// Listens for data planes, if there is an address for them.
pub(crate) async fn listen(
    address: Option<SocketAddr>,
) -> Result<Option<TcpListener>, ListenError> {
    match address {
        Some(address) => tetris_service_kit::http::listen("picker-listen", address)
            .await
            .map(Some),
        None => Ok(None),
    }
}

/// Serves on `listener`, if there is one, until `stopped` is true. For [`Timeouts::farewell`]
/// after that, it still takes connections. Then lets requests end within [`Timeouts::stop`].
pub(crate) async fn serve(
    listener: Option<TcpListener>,
    picker: Picker,
    limits: Limits,
    timeouts: Timeouts,
    stopped: watch::Receiver<bool>,
) {
    let Some(listener) = listener else { return };
    let service = Arc::new(Service::new(picker, limits, timeouts));
    let clients = Clients::new(limits.connections, limits.connections_per_client);
    let mut connections =
        OpenConnections::new(clients, timeouts.read(), move |stream, client, stop| {
            connection::serve(Arc::clone(&service), client, stream, stop)
        });
    let leaving = async {
        until(stopped).await;
        tokio::time::sleep(timeouts.farewell()).await;
    };
    connections.accept_until(listener, leaving).await;
    if !connections.end(timeouts.stop()).await {
        tracing::warn!("some picked requests had not ended when the gateway stopped");
    }
}
