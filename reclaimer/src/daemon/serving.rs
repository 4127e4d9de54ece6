//! One server of pages, on the threads of its kind.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use axum::Router;
use tetris_service_kit::http::Transport;
use tetris_service_kit::shutdown::until;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::http::{Limits, PageSource, serve};

/// Common parts of the servers.
pub(super) struct Serving {
    pub(super) threads: Handle,
    pub(super) stopped: watch::Receiver<bool>,
}

impl Serving {
    /// Listens on the address that `field` gives.
    pub(super) async fn bind(
        &self,
        field: &'static str,
        address: SocketAddr,
    ) -> Result<TcpListener> {
        let bound = self.threads.spawn(TcpListener::bind(address)).await?;
        bound.with_context(|| format!("cannot listen on {address} (field `{field}`)"))
    }

    /// Serves `router` until the daemon stops.
    pub(super) fn serve(
        &self,
        listener: TcpListener,
        transport: impl Transport,
        router: Router,
        limits: Limits,
    ) -> JoinHandle<()> {
        let stop = until(self.stopped.clone());
        self.threads
            .spawn(serve(listener, transport, router, limits, stop))
    }

    /// Drops old pages until the daemon stops.
    pub(super) fn sweep(&self, pages: impl PageSource) -> JoinHandle<()> {
        let stop = until(self.stopped.clone());
        self.threads.spawn(async move {
            tokio::select! {
                () = pages.sweep() => {}
                () = stop => {}
            }
        })
    }
}
