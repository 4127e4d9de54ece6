//! All of it put together.

use std::sync::Arc;

use tetris_service_kit::freed_pages;
use tetris_service_kit::http::{ListenError, Plain, listen, serve};
use tetris_service_kit::shutdown::{signals, until};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::certificates::{Clock, Serving, system_clock};
use crate::cli::Run;
use crate::http::{self, Limits, Shared, Tls};
use crate::inject::OptionsError;
use crate::readiness::Readiness;
use crate::sync::{self, Names, Sync};

/// The reason the webhook cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Arguments are wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// There is no API server.
    #[error(transparent)]
    Client(#[from] sync::ClientError),
    /// An address that cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// Signals cannot be waited for.
    #[error("SIGTERM and SIGINT cannot be waited for: {0}")]
    Signals(std::io::Error),
}

/// Listeners, client and settings of the webhook.
pub struct Webhook {
    /// For reviews.
    pub https: TcpListener,
    /// For probes and scrapes.
    pub http: TcpListener,
    /// For the API server.
    pub client: kube::Client,
    /// Names of the objects in the cluster.
    pub names: Names,
    /// Settings of the injection.
    pub options: crate::inject::Options,
    /// Bounds of clients.
    pub limits: Limits,
    /// Clock for the validity of certificates.
    pub clock: Clock,
}

/// Runs until SIGTERM or SIGINT.
pub async fn run(args: &Run) -> Result<(), RunError> {
    let stop = signals().map_err(RunError::Signals)?;
    let webhook = Webhook {
        options: args.injected.options()?,
        https: listen("listen", args.listen).await?,
        http: listen("metrics-listen", args.metrics_listen).await?,
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
    // The chosen ports, where none was given.
    tracing::info!(
        reviews = %reviews.unwrap_or(args.listen),
        pages = %pages.unwrap_or(args.metrics_listen),
        "listening"
    );
    tokio::spawn(freed_pages::follow());
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
        let tls = Tls::try_new(
            Arc::clone(&serving),
            Arc::clone(&shared.metrics),
            limits.handshake,
        )?;
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
            serve(
                self.https,
                tls,
                reviews,
                limits.connections(),
                until(stopped.clone())
            ),
            serve(
                self.http,
                Plain,
                pages,
                limits.connections(),
                until(stopped.clone())
            ),
            sync.run(until(stopped)),
            farewell(stop, &shared.readiness, limits, &stopping),
        );
        Ok(())
    }
}

/// Serves on for a while after `stop`, no longer ready, and then ends.
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
