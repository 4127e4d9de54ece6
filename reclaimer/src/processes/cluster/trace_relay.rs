//! Connections of the daemon's other processes to the collector of traces, which they cannot reach themselves.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tetris_service_kit::traces::Uri;
use tetris_service_kit::unix_http::{self, UnixHttpError};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::processes::traces;

/// Most connections at a time. Each process has one.
const CONNECTIONS: usize = 8;
/// Longest wait for the collector to take a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Forwards connections.
#[derive(Debug)]
pub(crate) struct TraceRelay {
    listener: UnixListener,
    address: Arc<str>,
}

impl TraceRelay {
    /// Listens at `socket` for connections to `collector`.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be listened on.
    pub(crate) fn listen(socket: &Path, collector: &Uri) -> Result<Self, UnixHttpError> {
        let host = collector.host().unwrap_or_default();
        Ok(Self {
            listener: unix_http::listen(socket)?,
            address: format!("{host}:{}", traces::port(collector)).into(),
        })
    }

    /// Forwards until `stopped`. Connections end then.
    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return,
                Some(_) = connections.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a connection for the collector of traces was not taken");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            // One too many is closed at once.
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                continue;
            };
            let address = Arc::clone(&self.address);
            connections.spawn(async move {
                let _permit = permit;
                if let Err(error) = forward(stream, &address).await {
                    tracing::debug!(%error, %address, "a connection to the collector of traces ended");
                }
            });
        }
    }
}

async fn forward(mut stream: UnixStream, address: &str) -> io::Result<()> {
    let connecting = timeout(CONNECT, TcpStream::connect(address));
    let mut collector = connecting.await.map_err(io::Error::other)??;
    copy_bidirectional(&mut stream, &mut collector).await?;
    Ok(())
}
