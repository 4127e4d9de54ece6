//! The command `run`: starts and stops the operator, the lease and the servers.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tetris_conventions::cgroup::memory_limit;
use tetris_scaler_core::{InventoryLimits, Settings};
use tetris_service_kit::freed_pages;
use tetris_service_kit::http::{ConnectionLimits, ListenError, Plain, listen, serve};
use tetris_service_kit::shutdown::{signals, until};
use thiserror::Error;
use tokio::sync::watch;

use crate::api_client::{ClientError, client};
use crate::cli::Run;
use crate::gateways::GatewayClient;
use crate::keda::{self, KedaLimits};
use crate::lease::{Elector, LeaseError, Names, Timing};
use crate::load::{Prometheus, PrometheusError, PrometheusOptions};
use crate::metrics::Metrics;
use crate::nodes::{PollOptions, Poller, Tokens};
use crate::operator::run::{Operator, Options};
use crate::pages::{self, Pages};
use crate::pod_client::PodClient;
use crate::state::published;

/// Timeout of a request to a pod that keeps a model or measures.
const ASK_PODS: Duration = Duration::from_secs(2);

/// The reason the scaler cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// No client of the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An invalid duration of the lease.
    #[error("--lease-seconds: {0}")]
    Lease(#[from] LeaseError),
    /// Invalid arguments of Prometheus.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// A failure to create the client for gateways.
    #[error("cannot create a client for the gateways: {0}")]
    Gateways(reqwest::Error),
    /// A failure to create the client for pods.
    #[error("cannot create a client for pods of models and measurements: {0}")]
    Pods(reqwest::Error),
    /// A failure to create the client for daemons.
    #[error("cannot create a client for the daemons of nodes: {0}")]
    Daemons(#[from] rustls::Error),
    /// An address that cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A failure to install signal handlers.
    #[error("cannot install handlers of SIGTERM and SIGINT: {0}")]
    Signals(std::io::Error),
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// Fails if an argument is invalid, an address is taken, or no API server is configured.
pub async fn run(args: &Run) -> Result<(), RunError> {
    let stop = signals().map_err(RunError::Signals)?;
    tokio::spawn(freed_pages::follow());
    run_with(args, client().await?, stop).await
}

/// Runs with `client` until `stop` completes. Then finishes the work in progress and releases the
/// lease.
///
/// # Errors
///
/// Fails if an argument is invalid or an address is taken.
pub async fn run_with(
    args: &Run,
    client: Client,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let listener = listen("listen", args.listen).await?;
    let keda_listener = listen("keda-listen", args.keda_listen).await?;
    let (sender, snapshots) = published();
    let metrics = Arc::new(Metrics::new(snapshots.clone()));
    let elector = elector(args, client.clone())?;
    let pages = Pages {
        metrics: Arc::clone(&metrics),
        ready: Arc::default(),
    };
    let tokens = Tokens::new(
        client.clone(),
        &args.namespace,
        &args.service_account,
        args.pod.as_deref(),
    );
    let operator = Operator {
        options: options(args),
        client,
        leadership: elector.leadership(),
        metrics: Arc::clone(&metrics),
        published: sender,
        ready: Arc::clone(&pages.ready),
        prometheus: prometheus(args)?,
        gateways: GatewayClient::try_new().map_err(RunError::Gateways)?,
        pods: PodClient::try_new(ASK_PODS, None).map_err(RunError::Pods)?,
    };
    let limits = inventory_limits(args.inventory_memory);
    let poller = Poller::try_new(PollOptions::default(), limits, tokens)?;
    let (stopping, stopped) = watch::channel(false);
    let leading = Box::pin(lead(operator, elector, poller, &metrics, &stopping));
    let keda_stop = until(stopped.clone());
    let serve_keda = async {
        let served = keda::serve(keda_listener, snapshots, KedaLimits::default(), keda_stop);
        if let Err(error) = served.await {
            tracing::error!("KEDA external scaler: {error}");
        }
    };
    let farewell = async {
        tokio::select! {
            () = stop => tracing::info!("stopping"),
            () = until(stopped.clone()) => {}
        }
        stopping.send_replace(true);
    };
    tokio::join!(
        leading,
        serve(
            listener,
            Plain,
            pages::router(pages),
            ConnectionLimits::default(),
            until(stopped.clone())
        ),
        serve_keda,
        farewell,
    );
    Ok(())
}

fn elector(args: &Run, client: Client) -> Result<Elector, LeaseError> {
    let timing = Timing::try_new(args.lease_seconds)?;
    let names = Names {
        namespace: args.namespace.clone(),
        name: args.lease.clone(),
        identity: identity(args),
    };
    Ok(Elector::new(client, names, timing))
}

/// Runs the operator and the elector until `stopping`. Then releases the lease at once, even if
/// readers are still served.
async fn lead(
    operator: Operator,
    mut elector: Elector,
    poller: Poller,
    metrics: &Metrics,
    stopping: &watch::Sender<bool>,
) {
    let stopped = stopping.subscribe();
    let acting = async {
        operator.run(poller, until(stopped.clone())).await;
        // From here on this replica writes nothing.
        stopping.send_replace(true);
    };
    let electing = elector.run(until(stopped.clone()), |_| metrics.failed("lease"));
    tokio::join!(acting, electing);
    if let Err(error) = elector.release().await {
        tracing::warn!("{error}; another replica takes over when the lease expires");
    }
}

/// Returns the inventory's limits for the `asked` memory, or for that of the container.
fn inventory_limits(asked: Option<u64>) -> InventoryLimits {
    let container = memory_limit();
    let limits = match asked.or(container) {
        Some(memory) => InventoryLimits::for_memory(memory),
        None => InventoryLimits::default(),
    };
    let most = (limits.most_bytes() as u64).saturating_mul(2);
    if let Some(memory) = container.filter(|memory| most > memory / 4 * 3) {
        tracing::warn!(
            "the container has {memory} bytes, and two inventories at their limits take {most}, \
             expected three quarters at most; raise its limits.memory, or lower --inventory-memory"
        );
    }
    let InventoryLimits {
        nodes,
        objects,
        pairs,
    } = limits;
    tracing::info!(nodes, objects, pairs, "limits of the inventory");
    limits
}

fn options(args: &Run) -> Options {
    Options {
        interval: Duration::from_secs(args.interval_seconds),
        poll: Duration::from_secs(args.poll_seconds),
        namespace: args.namespace.clone(),
        daemons: args.daemon_namespace.clone(),
        gateways: args.gateway_namespace.clone(),
        consolidate_after: (args.consolidate_after_seconds > 0)
            .then(|| Duration::from_secs(args.consolidate_after_seconds)),
        failing_after: Duration::from_secs(args.failing_after_seconds),
        settings: Settings::default(),
        placement: args.placement,
    }
}

fn prometheus(args: &Run) -> Result<Option<Prometheus>, PrometheusError> {
    let Some(url) = args.prometheus_url.clone() else {
        return Ok(None);
    };
    let options = PrometheusOptions {
        url,
        token: args.prometheus_token_file.clone(),
        ca: args.prometheus_ca.clone(),
        timeout: Duration::from_secs(args.prometheus_timeout_seconds),
    };
    Prometheus::try_new(options).map(Some)
}

/// Returns the pod's name with a random suffix, which no earlier process of that name had.
fn identity(args: &Run) -> String {
    let pod = args.pod.as_deref().unwrap_or("tetris-scaler");
    format!("{pod}_{:016x}", rand::random::<u64>())
}
