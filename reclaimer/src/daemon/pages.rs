//! Servers of the daemon's pages, each on its address.

use anyhow::{Context, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::inventory;
use super::serving::Serving;
use super::threads::Threads;
use crate::config::Config;
use crate::http::PageSource;

/// The servers that the configuration asks for.
pub(super) struct PageServers {
    servers: Vec<JoinHandle<()>>,
    /// Threads of the servers that pods can keep busy, until all have ended.
    _threads: Threads,
}

impl PageServers {
    /// Starts the servers, until `stopped`. That of probes is among the daemon's own tasks, and no
    /// client of another server takes its time. `no_api_server` is called where clients of the
    /// inventory cannot be checked.
    ///
    /// # Errors
    /// When an address cannot be listened on.
    pub(super) async fn start(
        config: &Config,
        pages: impl PageSource,
        no_api_server: impl FnOnce(),
        stopped: watch::Receiver<bool>,
    ) -> Result<Self> {
        let threads = Threads::of_pages().context("cannot start the thread of pages")?;
        let (file, network) = (&config.file, &config.file.network);
        let on = |threads: &Handle| Serving {
            threads: threads.clone(),
            stopped: stopped.clone(),
        };
        let (main, apart) = (on(&Handle::current()), on(threads.handle()));
        let limits = pages.limits();
        let mut servers = Vec::new();
        if let Some(address) = file.listen {
            let listener = apart.bind("listen", address).await?;
            tracing::info!(address = %listener.local_addr()?, "serving metrics, health, status and inventory");
            servers.push(apart.serve(listener, limits.transport(), pages.all(), limits));
        }
        if let Some(address) = network.metrics {
            let listener = apart.bind("network.metrics", address).await?;
            tracing::info!(metrics = %listener.local_addr()?, "serving metrics");
            servers.push(apart.serve(listener, limits.transport(), pages.metrics(), limits));
        }
        if let Some(address) = network.probes {
            let listener = main.bind("network.probes", address).await?;
            tracing::info!(probes = %listener.local_addr()?, "serving probes");
            let limits = pages.limits_of_probes();
            servers.push(main.serve(listener, limits.transport(), pages.probes(), limits));
        }
        if let Some(address) = network.inventory {
            let listener = apart.bind("network.inventory", address).await?;
            let clients = network.inventory_clients.iter().cloned();
            let server = inventory::serve(&apart, listener, &pages, clients, no_api_server).await?;
            servers.extend(server);
        }
        if !servers.is_empty() {
            servers.push(apart.sweep(pages));
        }
        Ok(Self {
            servers,
            _threads: threads,
        })
    }

    /// Waits for the servers' end, after the signal to stop.
    pub(super) async fn end(self) -> Result<()> {
        for server in self.servers {
            server.await.context("an HTTP server failed")?;
        }
        Ok(())
    }
}
