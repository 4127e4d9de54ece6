//! The command `open-gates`: starts and stops the watch, the keeper and the pages.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use tetris_service_kit::http::{ConnectionLimits, Plain, listen, serve};
use tetris_service_kit::shutdown::signals;
use tokio::sync::{Notify, watch};

use super::keeper::{Closed, Keeper};
use crate::api_client::client;
use crate::cli::OpenGates;
use crate::metrics::Metrics;
use crate::operator::cache::Cache;
use crate::operator::outage::Outage;
use crate::pages::{self, Pages};
use crate::run::RunError;

/// Selects pods without a node. One with an annotation cannot be selected.
const UNSCHEDULED: &str = "spec.nodeName=";
/// Maximum number of pods of one answer.
const PAGE: u32 = 500;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
///
/// Fails if an argument is invalid, an address is taken, or no API server is configured.
pub async fn run(args: &OpenGates) -> Result<(), RunError> {
    let stop = signals().map_err(RunError::Signals)?;
    Box::pin(run_with(args, client().await?, stop)).await
}

/// Runs with `client` until `stop` completes.
async fn run_with(
    args: &OpenGates,
    client: Client,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let listener = listen("listen", args.listen).await?;
    let metrics = Arc::new(Metrics::of_gates());
    let pages = Pages {
        metrics: Arc::clone(&metrics),
        ready: Arc::default(),
    };
    let ready = Arc::clone(&pages.ready);
    let pods = Cache::<Closed>::default();
    let config = Config::default().page_size(PAGE).fields(UNSCHEDULED);
    let events = watcher(Api::<Pod>::all(client.clone()), config).default_backoff();
    let outage = Outage::new("pods", &metrics);
    let (changed, (stopping, stopped)) = (Notify::new(), watch::channel(false));
    let after = Duration::from_secs(args.after_seconds);
    let keeper = Keeper::new(client, metrics, after);
    let work = async {
        tokio::join!(
            pods.follow(events, |pod| Closed::read(&pod), &changed, outage),
            keeper.run(&pods),
            // Ready once the list is complete.
            async {
                while pods.all().is_none() {
                    changed.notified().await;
                }
                ready.store(true, std::sync::atomic::Ordering::Relaxed);
            },
        );
    };
    let until_stopped = async {
        tokio::select! {
            () = stop => tracing::info!("stopping"),
            () = async { work.await; } => tracing::error!("the watch of pods has ended"),
        }
        stopping.send_replace(true);
    };
    let router = pages::router(pages);
    let limits = ConnectionLimits::default();
    let stop_pages = tetris_service_kit::shutdown::until(stopped);
    tokio::join!(
        serve(listener, Plain, router, limits, stop_pages),
        until_stopped,
    );
    Ok(())
}
