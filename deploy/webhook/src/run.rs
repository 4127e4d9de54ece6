//! All of it put together.

use std::net::SocketAddr;
use std::sync::Arc;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::certificates::{Clock, Serving, system_clock};
use crate::cli::Run;
use crate::http::{self, Limits, Readiness, Shared};
use crate::inject::OptionsError;
use crate::metrics::Metrics;
use crate::sync::{self, Names, Sync};

/// Why the webhook cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Arguments are wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no API server.
    #[error(transparent)]
    Client(#[from] sync::ClientError),
    /// An address cannot be listened on.
    #[error("--{flag} {address}: {source}; give an address of this host with a port that is free")]
    Listen {
        /// The flag that has the address.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Signals cannot be waited for.
    #[error("SIGTERM and SIGINT cannot be waited for: {0}")]
    Signals(std::io::Error),
}

/// Where the webhook listens and what it serves with.
pub struct Webhook {
    /// For reviews.
    pub https: TcpListener,
    /// For probes and scrapes.
    pub http: TcpListener,
    /// For the API server.
    pub client: kube::Client,
    /// What the objects are called.
    pub names: Names,
    /// What is injected.
    pub options: crate::inject::Options,
    /// Bounds of clients.
    pub limits: Limits,
    /// What tells the time.
    pub clock: Clock,
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(args: &Run) -> Result<(), RunError> {
    let stop = signals().map_err(RunError::Signals)?;
    let webhook = Webhook {
        options: args.injected.options()?,
        https: listen("listen", args.listen).await?,
        http: listen("metrics", args.metrics).await?,
        client: sync::client().await?,
        names: Names {
            namespace: args.namespace.clone(),
            service: args.service.clone(),
            secret: args.secret.clone(),
            configuration: args.configuration.clone(),
        },
        limits: Limits::default(),
        clock: system_clock(),
    };
    tracing::info!(reviews = %args.listen, pages = %args.metrics, "listening");
    webhook.serve(stop).await
}

impl Webhook {
    /// Serves until `stop` is done, and for [`Limits::farewell`] after it.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let serving = Arc::new(Serving::default());
        let metrics = Arc::new(Metrics::default());
        let readiness = Arc::new(Readiness::new(
            Arc::clone(&serving),
            Arc::clone(&self.clock),
        ));
        let shared = Shared {
            options: Arc::new(self.options),
            metrics: Arc::clone(&metrics),
            readiness: Arc::clone(&readiness),
        };
        let (limits, tls) = (self.limits, http::acceptor(Arc::clone(&serving))?);
        let sync = Sync::new(
            self.client,
            self.names,
            serving,
            Arc::clone(&readiness),
            Arc::clone(&metrics),
            self.clock,
        );
        let (stopping, stopped) = watch::channel(false);
        let until_stopped = || {
            let mut stopped = stopped.clone();
            // An error says that the sender is gone, which ends the servers too.
            async move { drop(stopped.wait_for(|stop| *stop).await) }
        };
        let farewell = async {
            stop.await;
            tracing::info!("stopping");
            readiness.stop();
            tokio::time::sleep(limits.farewell).await;
            stopping.send_replace(true);
        };
        let reviews = http::reviews(shared.clone(), limits);
        let pages = http::pages(shared, limits);
        tokio::join!(
            http::serve(
                self.https,
                Some((tls, metrics)),
                reviews,
                limits,
                until_stopped()
            ),
            http::serve(self.http, None, pages, limits, until_stopped()),
            sync.run(until_stopped()),
            farewell,
        );
        Ok(())
    }
}

async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| RunError::Listen {
        flag,
        address,
        source,
    })
}

/// Done when the process is told to end.
fn signals() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
