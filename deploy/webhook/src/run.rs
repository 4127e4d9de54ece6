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
    let (reviews, pages) = (webhook.https.local_addr(), webhook.http.local_addr());
    // The ports that were chosen, where none was given.
    tracing::info!(
        reviews = %reviews.unwrap_or(args.listen),
        pages = %pages.unwrap_or(args.metrics),
        "listening"
    );
    webhook.serve(stop).await
}

impl Webhook {
    /// Serves until `stop` is done, and for [`Limits::farewell`] after it.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let serving = Arc::new(Serving::default());
        let shared = Shared {
            options: Arc::new(self.options),
            metrics: Arc::default(),
            readiness: Arc::new(Readiness::new(Arc::clone(&serving), self.clock.clone())),
        };
        let limits = self.limits;
        let tls = http::acceptor(Arc::clone(&serving))?;
        let tls = Some((tls, Arc::clone(&shared.metrics)));
        let readiness = Arc::clone(&shared.readiness);
        let metrics = Arc::clone(&shared.metrics);
        let sync = Sync::new(
            self.client,
            self.names,
            serving,
            readiness,
            metrics,
            self.clock,
        );
        let (stopping, stopped) = watch::channel(false);
        let reviews = http::reviews(shared.clone(), limits);
        let pages = http::pages(shared.clone(), limits);
        tokio::join!(
            http::serve(self.https, tls, reviews, limits, until(stopped.clone())),
            http::serve(self.http, None, pages, limits, until(stopped.clone())),
            sync.run(until(stopped)),
            farewell(stop, &shared.readiness, limits, &stopping),
        );
        Ok(())
    }
}

/// Serves on for a while after `stop`, no longer ready, and then says that it is the end.
async fn farewell(
    stop: impl Future<Output = ()>,
    readiness: &Readiness,
    limits: Limits,
    stopping: &watch::Sender<bool>,
) {
    stop.await;
    tracing::info!("stopping");
    readiness.stop();
    tokio::time::sleep(limits.farewell).await;
    stopping.send_replace(true);
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error says that the sender is gone, which ends the servers too.
    drop(stopped.wait_for(|stop| *stop).await);
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
