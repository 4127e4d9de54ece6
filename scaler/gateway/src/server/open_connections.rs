//! Open connections of a listener, within limits, and their end.

use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt as _;
use rustix::net::sockopt::set_tcp_user_timeout;
use tetris_service_kit::clients::Clients;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client_address::ClientAddress;

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Open connections, each served by a task.
pub(crate) struct OpenConnections<F> {
    clients: Clients,
    /// Longest time for which a client may read nothing.
    reading: Duration,
    /// Serves a connection, and ends it after its requests once the receiver has a value.
    serve: F,
    stop: watch::Sender<()>,
    /// Dropped at the end, which ends the connections that are left.
    tasks: JoinSet<()>,
}

impl<F, S> OpenConnections<F>
where
    F: Fn(TcpStream, ClientAddress, watch::Receiver<()>) -> S,
    S: Future<Output = ()> + Send + 'static,
{
    pub(crate) fn new(clients: Clients, reading: Duration, serve: F) -> Self {
        Self {
            clients,
            reading,
            serve,
            stop: watch::Sender::new(()),
            tasks: JoinSet::new(),
        }
    }

    /// Accepts connections until `leaving` completes, and those that the kernel has accepted by then.
    pub(crate) async fn accept_until(
        &mut self,
        listener: TcpListener,
        leaving: impl Future<Output = ()>,
    ) {
        tokio::select! {
            () = leaving => {}
            () = self.accept(&listener) => {}
        }
        while let Some(Ok((stream, address))) = listener.accept().now_or_never() {
            self.open(stream, address);
        }
    }

    /// Ends all connections, each after its requests. Returns false if some had not ended in time.
    pub(crate) async fn end(mut self, within: Duration) -> bool {
        self.stop.send_replace(());
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(within, ended).await.is_ok()
    }

    async fn accept(&mut self, listener: &TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = self.tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.open(stream, address),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn open(&mut self, stream: TcpStream, address: SocketAddr) {
        let Some(place) = self.clients.enter(address.ip()) else {
            // Closed at once: others' connections stay.
            tracing::debug!(client = %address.ip(), "too many connections");
            return;
        };
        // Answers are written whole; a failure costs a delay at most.
        drop(stream.set_nodelay(true));
        // Then the kernel keeps no output of a closed connection for a client that does not read either.
        let unread = u32::try_from(self.reading.as_millis()).unwrap_or(u32::MAX);
        let _as_before = set_tcp_user_timeout(&stream, unread);
        let served = (self.serve)(stream, ClientAddress(address), self.stop.subscribe());
        // A block that waited for it would have room for it twice.
        self.tasks.spawn(served.map(move |()| drop(place)));
    }
}
