//! The command `run`: starts and stops the servers, and follows the configuration file.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tetris_conventions::cgroup::memory_limit;
use tetris_service_kit::http::{ConnectionLimits, ListenError, Plain, listen, serve};
use tetris_service_kit::shutdown::{signals, until};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::callers::Callers;
use crate::cli::Run;
use crate::cluster::{self, Cluster};
use crate::config::{CallersConfig, Config, ConfigError};
use crate::functions::Functions;
use crate::loads::Origin;
use crate::memory::{self, Memory, Sizes};
use crate::metrics::Metrics;
use crate::pages::{self, Pages};
use crate::picker::{self, Picker};
use crate::proxy::Proxy;
use crate::server::{Certificate, CertificateError, Serving, Tls, serve_on_threads};

/// Interval in which the gateway looks at its file.
const FOLLOW: Duration = Duration::from_millis(250);

/// The reason the gateway cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// An unusable configuration file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Functions in a file, and in a cluster.
    #[error(
        "the file has functions, and --cluster takes them from the cluster; leave out one of them"
    )]
    BothSources,
    /// Callers of a cluster, without a cluster.
    #[error(
        "the file has a section [callers], which only --cluster has a use for; leave out the section, or add the argument"
    )]
    CallersOfFile,
    /// An unusable certificate.
    #[error("[tls]: {0}")]
    Certificate(#[from] CertificateError),
    /// A failure of the cryptography.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A failure to reach the API server.
    #[error(transparent)]
    Cluster(#[from] tetris_scaler::api_client::ClientError),
    /// An address that cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A socket without an address.
    #[error("cannot read the address of a socket: {0}")]
    Address(std::io::Error),
    /// A failure of the threads that serve clients.
    #[error("cannot serve clients: {0}")]
    Threads(std::io::Error),
    /// A failure to install signal handlers.
    #[error("cannot install handlers of SIGTERM and SIGINT: {0}")]
    Signals(std::io::Error),
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// Fails if the configuration is wrong or an address is taken.
pub async fn run(args: &Run) -> Result<(), RunError> {
    let stop = signals().map_err(RunError::Signals)?;
    run_until(args, stop, |addresses| {
        let Addresses {
            clients,
            own,
            picker,
        } = addresses;
        let picker = picker.map(tracing::field::display);
        tracing::info!(%clients, metrics = %own, picker, "serving");
    })
    .await
}

/// Addresses that a gateway listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub clients: SocketAddr,
    /// For /metrics, /loads, /healthz and /readyz.
    pub own: SocketAddr,
    /// For data planes, if there is an endpoint picker.
    pub picker: Option<SocketAddr>,
}

/// Runs until `stop` completes. Then is not ready any more, takes no more connections, and lets
/// requests end. `serving` gets the addresses once clients can connect.
///
/// # Errors
///
/// Fails if the configuration is wrong or an address is taken.
pub async fn run_until(
    args: &Run,
    stop: impl Future<Output = ()>,
    serving: impl FnOnce(Addresses),
) -> Result<(), RunError> {
    let path = args.config.as_deref();
    let changed = path.and_then(modified);
    let config = path.map(Config::read).transpose()?.unwrap_or_default();
    if !args.cluster && config.callers != CallersConfig::default() {
        return Err(RunError::CallersOfFile);
    }
    let is_empty =
        config.function.is_empty() && config.gpu_pool.is_empty() && config.engine_group.is_empty();
    if args.cluster && !is_empty {
        return Err(RunError::BothSources);
    }
    let certificate = config.tls.as_ref().map(Certificate::read).transpose()?;
    let certificate = certificate.map(Arc::new);
    let clients = listen("listen", args.listen).await?;
    let metrics_listener = listen("metrics-listen", args.metrics_listen).await?;
    let picker = picker::listen(args.picker_listen).await?;
    let of_picker = picker.as_ref().map(TcpListener::local_addr).transpose();
    serving(Addresses {
        clients: clients.local_addr().map_err(RunError::Address)?,
        own: metrics_listener.local_addr().map_err(RunError::Address)?,
        picker: of_picker.map_err(RunError::Address)?,
    });
    let metrics = Metrics::new();
    let container = memory_limit();
    let sizes = Sizes::of(&config.limits, container);
    sizes.warn_beyond(container);
    let memory = Memory::new(sizes);
    let pages = memory.pages.clone();
    let client = if args.cluster {
        Some(cluster::client().await?)
    } else {
        None
    };
    let callers = client
        .clone()
        .map(|client| Arc::new(Callers::new(client, &config.callers)));
    let proxy = Proxy::among(
        &config.limits,
        config.timeouts,
        Arc::clone(&metrics),
        memory,
        callers.clone(),
    );
    let metrics_of_engines = metrics.engines().clone();
    let mut functions = Functions::new(pages, metrics_of_engines);
    proxy.set_routes(&functions.update(&config));
    let (stopping, stopped) = watch::channel(false);
    // A cluster's functions are not known yet.
    let ready = Arc::new(AtomicBool::new(!args.cluster));
    let cluster = client.zip(callers).map(|(client, callers)| {
        Cluster::new(client, args.namespace.clone(), config.cluster, callers)
    });
    let picking = picker::serve(
        picker,
        Picker::new(proxy.clone(), Arc::clone(&metrics), Arc::clone(&ready)),
        config.limits,
        config.timeouts,
        stopped.clone(),
    );
    let pages = Pages {
        proxy: proxy.clone(),
        metrics,
        origin: Origin::new(args.name.clone()),
        ready: Arc::clone(&ready),
    };
    let (ended, end) = watch::channel(false);
    let farewell = async {
        tokio::select! {
            () = stop => {}
            () = until(stopped.clone()) => {}
        }
        tracing::info!("stopping");
        ready.store(false, Ordering::Relaxed);
        stopping.send_replace(true);
    };
    let tls = certificate.clone().map(Tls::try_new).transpose()?;
    let serving = Serving::new(proxy.clone(), config.limits, config.timeouts, tls);
    let proxying = async {
        let serving = serve_on_threads(clients, serving, stopped.clone());
        let serving = async {
            let served = serving.await;
            // Also after a failure, which ends the gateway.
            stopping.send_replace(true);
            served
        };
        let (served, ()) = tokio::join!(serving, picking);
        ended.send_replace(true);
        served.map_err(RunError::Threads)
    };
    let following = async {
        let sources = async {
            match (&cluster, path) {
                (Some(cluster), _) => {
                    cluster
                        .run(&proxy, || ready.store(true, Ordering::Relaxed))
                        .await;
                }
                (None, Some(path)) => follow(path, changed, &proxy, &mut functions).await,
                (None, None) => {}
            }
        };
        // Also while requests end: one that waits may still get a new instance.
        tokio::select! {
            () = sources => {}
            () = until(end.clone()) => {}
        }
    };
    let following = Box::pin(following);
    let following = async {
        tokio::select! {
            () = memory::follow(proxy.memory()) => {}
            () = follow_certificate(certificate.as_deref()) => {}
            () = following => {}
        }
    };
    // Loads are reported until the last request has ended.
    let limits = ConnectionLimits::default();
    let reporting = serve(
        metrics_listener,
        Plain,
        pages::router(pages),
        limits,
        until(end.clone()),
    );
    let (served, (), (), ()) = tokio::join!(proxying, following, reporting, farewell);
    served
}

async fn follow_certificate(certificate: Option<&Certificate>) {
    match certificate {
        Some(certificate) => certificate.follow().await,
        None => std::future::pending().await,
    }
}

/// Reads the file again whenever it has changed. A wrong one changes nothing.
async fn follow(
    path: &Path,
    mut known: Option<SystemTime>,
    proxy: &Proxy,
    functions: &mut Functions,
) {
    loop {
        tokio::time::sleep(FOLLOW).await;
        let stamp = modified(path);
        if stamp == known {
            continue;
        }
        known = stamp;
        match Config::read(path) {
            Ok(config) => {
                proxy.set_routes(&functions.update(&config));
                tracing::info!(
                    functions = config.function.len(),
                    gpu_pools = config.gpu_pool.len(),
                    engine_groups = config.engine_group.len(),
                    "configuration read again; limits and timeouts stay until the next start"
                );
            }
            Err(error) => tracing::error!("{error}; the configuration before it stays in force"),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}
