//! gRPC server of the picker.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use rustix::net::sockopt::set_tcp_user_timeout;
use tetris_service_kit::clients::Clients;
use tetris_service_kit::http::ListenError;
use tetris_service_kit::shutdown::until;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{self, Service};
use super::parts::Picker;
use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
    let mut server = Server {
        service: Arc::new(Service::new(picker, limits, timeouts)),
        clients: Clients::new(limits.connections, limits.connections_per_client),
        reading: timeouts.read(),
        stop: watch::Sender::new(()),
        tasks: JoinSet::new(),
    };
    let leaving = async {
        until(stopped).await;
        tokio::time::sleep(timeouts.farewell()).await;
    };
    tokio::select! {
        () = leaving => {}
        () = server.accept(&listener) => {}
    }
    // Connections that the kernel has accepted already.
    while let Some(Ok((stream, address))) = listener.accept().now_or_never() {
        server.open(stream, address);
    }
    drop(listener);
    let ended = tokio::time::timeout(timeouts.stop(), server.stop());
    if ended.await.is_err() {
        tracing::warn!("some picked requests had not ended when the gateway stopped");
    }
}

/// Open connections.
struct Server {
    service: Arc<Service>,
    clients: Clients,
    /// Longest time for which a data plane may read nothing.
    reading: Duration,
    /// Tells all connections to end once they have no request.
    stop: watch::Sender<()>,
    /// Dropped at the end, which ends the connections that are left.
    tasks: JoinSet<()>,
}

impl Server {
    /// Accepts connections, for ever.
    async fn accept(&mut self, listener: &TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = self.tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.open(stream, address),
                Err(error) => {
                    tracing::warn!("cannot accept a data plane's connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn open(&mut self, stream: TcpStream, address: SocketAddr) {
        let Some(place) = self.clients.enter(address.ip()) else {
            // Closed at once: others' connections stay.
            tracing::debug!(data_plane = %address.ip(), "too many connections");
            return;
        };
        // Answers are written whole; a failure costs a delay at most.
        drop(stream.set_nodelay(true));
        // Then the kernel keeps no output of a closed connection for a data plane that does not read either.
        let unread = u32::try_from(self.reading.as_millis()).unwrap_or(u32::MAX);
        let _as_before = set_tcp_user_timeout(&stream, unread);
        let service = Arc::clone(&self.service);
        let stop = self.stop.subscribe();
        self.tasks.spawn(async move {
            let _place = place;
            connection::serve(service, ClientAddress(address), stream, stop).await;
        });
    }

    /// Ends all connections, each after its requests.
    async fn stop(&mut self) {
        self.stop.send_replace(());
        while self.tasks.join_next().await.is_some() {}
    }
}
