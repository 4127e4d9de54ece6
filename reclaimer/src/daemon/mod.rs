//! The daemon put together: the engine in its thread, and the asynchronous parts around it.

mod broker;
mod cluster;
mod core;
mod declarations;
mod holder_counter;
mod inventory;
mod mounts;
mod other;
mod pages;
mod pod_watch;
mod pods;
mod publisher;
mod reload;
mod service;
mod serving;
mod shortfall_log;
mod sockets;
mod threads;

use std::sync::Arc;

use anyhow::{Context, Result};
use tetris_service_kit::freed_pages;

use crate::config::{Config, ConfigFlags};
use crate::gpu_mirror::GpuMirrorThread;
use crate::http::{Health, Pages};
use crate::metrics::Metrics;
use crate::report::ErrorClass;

pub use self::broker::broker;
pub use self::cluster::cluster;
use self::core::Core;
pub use other::OtherDaemon;
use other::refuse_others;
use pages::PageServers;
use pod_watch::watch_pods;

/// Runs until SIGTERM or SIGINT, and ends in order: no new requests, the pass in progress ends, and
/// learned state is persisted. SIGHUP reads the configuration again; a wrong one is logged and
/// changes nothing.
///
/// # Errors
/// When the configuration is wrong, or pods get volumes by it; when another daemon looks after a store ([`OtherDaemon`]), the tmpfs or
/// an HTTP address cannot be had, or a part fails.
pub async fn run(flags: &ConfigFlags, dry_run: bool) -> Result<()> {
    let config = flags.load()?;
    // A dry run changes nothing, and can run beside a daemon.
    if !dry_run {
        mounts::refuse_volumes(&config)?;
        refuse_others(&config.file.stores)?;
    }
    tokio::spawn(freed_pages::follow());
    let core = Core::new(config, dry_run, Health::new)?;
    let (config, metrics) = (&core.config.clone(), &Arc::clone(&core.metrics));
    let stopped = core.stopped.clone();
    if !dry_run {
        mounts::prepare(config, metrics)?;
    }
    let reclaimer = core.reclaimer();
    let no_api_server = || metrics.error(ErrorClass::Kubernetes, None);
    let pages = Pages::new(core.pages());
    let servers = PageServers::start(config, pages, no_api_server, stopped.clone()).await?;
    let declarations = declarations::follow(&reclaimer, &core.commands, metrics, stopped.clone());
    let claimed = core.claim(&reclaimer).await?;
    let table = config.file.gpu_mirror.clone().filter(|_| !dry_run);
    let started = table.map(GpuMirrorThread::start);
    let gpu_mirror = started.and_then(|started| shown_gpu_mirror(started, metrics));
    // The tmpfs and the stores on it are there before the engine looks for them.
    let reloaded = |new: &Config| {
        if !dry_run {
            mounts::prepare_again(new, config, metrics);
        }
    };
    // There are no other processes to tell of.
    let amend = Box::new(|_: &mut _| {});
    let ended = core.look_after(flags, reclaimer, claimed, gpu_mirror, amend, reloaded);
    let ended = ended.await;
    servers.end().await?;
    declarations
        .await
        .context("the watch of the API server failed")?;
    ended
}

/// The GPU mirror, whose state the metrics show from now on. Without it clients load into host
/// memory.
fn shown_gpu_mirror(
    started: std::io::Result<GpuMirrorThread>,
    metrics: &Metrics,
) -> Option<GpuMirrorThread> {
    match started {
        Ok(gpu_mirror) => {
            let view = Arc::clone(gpu_mirror.view());
            metrics.show_gpu_mirror(move || view.status());
            Some(gpu_mirror)
        }
        Err(error) => {
            tracing::warn!(%error, "no GPU mirror: its thread cannot be started");
            None
        }
    }
}
