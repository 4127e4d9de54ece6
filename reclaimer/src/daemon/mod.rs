//! The daemon put together: the engine in its thread, and the asynchronous parts around it.

mod declarations;
mod holder_counter;
#[cfg_attr(not(feature = "kubernetes"), path = "no_inventory.rs")]
mod inventory;
#[cfg_attr(not(feature = "node"), path = "no_node_role.rs")]
mod node_role;
mod other;
mod pages;
#[cfg_attr(not(feature = "kubernetes"), path = "no_pod_watch.rs")]
mod pod_watch;
mod pods;
mod publisher;
mod service;
mod serving;
mod shortfall_log;
mod sockets;
mod threads;

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::{Context, Result};
use tetris_service_kit::shutdown::signals;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::{Config, ConfigFlags};
use crate::gpu_mirror::{GpuMirrorThread, needs_restart};
use crate::http::{DriverState, Health, HttpState};
use crate::metrics::Metrics;
use crate::reclaimer::Reclaimer;
use crate::reclaimer::engine::{Command, Engine, now_ms};
use crate::report::VolumeStatus;

use holder_counter::HolderCounter;
use node_role::NodeRole;
pub use other::OtherDaemon;
use other::refuse_others;
use pages::PageServers;
use publisher::Publisher;
use service::ServiceReports;
use sockets::Sockets;
use threads::Threads;

/// Longest wait for the sockets to be taken away.
const SOCKETS_CLOSE: Duration = Duration::from_secs(10);
/// A pass that takes longer hangs.
const LONGEST_PASS: Duration = Duration::from_mins(2);

/// Receivers of the CSI driver's reports.
struct DriverReports {
    state: watch::Sender<DriverState>,
    volumes: watch::Sender<Option<VolumeStatus>>,
}

/// Runs until SIGTERM or SIGINT, and ends in order: no new requests, the pass in progress ends, and
/// learned state is persisted. SIGHUP reads the configuration again; a wrong one is logged and
/// changes nothing.
///
/// # Errors
/// When the configuration is wrong, another daemon looks after a store ([`OtherDaemon`]), the tmpfs or
/// an HTTP address cannot be had, or a part fails.
pub async fn run(flags: &ConfigFlags, dry_run: bool) -> Result<()> {
    let config = flags.load()?;
    // A dry run changes nothing, and can run beside a daemon.
    if !dry_run {
        refuse_others(&config)?;
    }
    let service = ServiceReports::from_env();
    pods::raise_open_files();
    let pods = Threads::of_pods().context("cannot start the threads of the pods' sockets")?;
    let mut signaled = pin!(signals()?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    let (commands, received) = channel();
    let names = config.file.stores.iter().map(|store| store.name.clone());
    let metrics = Arc::new(Metrics::new(names));
    let (driver, registration) = watch::channel(NodeRole::driver_at_start(&config, dry_run));
    let health = Health::new(config.interval() * 2 + LONGEST_PASS).with_driver(registration);
    let health = Arc::new(health);
    let (status, latest) = watch::channel(None);
    NodeRole::prepare(&config, dry_run, &metrics)?;
    service.follow(Arc::clone(&health), latest.clone(), stopped.clone());
    let reclaimer = Reclaimer::new(config.clone(), dry_run, now_ms());
    let shared = HttpState {
        metrics: Arc::clone(&metrics),
        status: latest,
        health: Arc::clone(&health),
    };
    let servers = PageServers::start(&config, shared, stopped.clone()).await?;
    let declarations = declarations::follow(&reclaimer, &commands, &metrics, stopped.clone());
    let (mut sockets, closed) = if dry_run {
        // A dry run frees nothing, and a daemon that answers keeps agents from doing it.
        (None, tokio::spawn(async {}))
    } else {
        let (commands, metrics) = (commands.clone(), Arc::clone(&metrics));
        let (sockets, closed) = Sockets::new(pods.handle(), commands, metrics, status.subscribe());
        (Some(sockets), closed)
    };
    let claimed = sockets.as_mut().map_or(Ok(()), |sockets| {
        sockets.claim(&reclaimer.stores(), &config)
    });
    if let Err(other) = claimed {
        drop(sockets);
        let _left_behind = tokio::time::timeout(SOCKETS_CLOSE, closed).await;
        return Err(other.into());
    }
    let (volumes, counted) = watch::channel(None);
    let role = NodeRole::start(
        &config,
        dry_run,
        &commands,
        &metrics,
        DriverReports {
            state: driver,
            volumes,
        },
        stopped.clone(),
    );
    let gpu_mirror = (!dry_run).then(|| gpu_mirror(&config, &metrics)).flatten();
    let reclaimer = reclaimer
        .with_references(gpu_mirror.as_ref().map(GpuMirrorThread::references))
        .with_granted(sockets.as_ref().map(Sockets::granted_room));
    let (counter, count_due) = HolderCounter::new(status.clone(), Arc::clone(&metrics));
    let counting = tokio::spawn(counter.run(stopped));
    let publisher = Publisher::new(
        commands.clone(),
        metrics,
        health,
        status,
        count_due,
        sockets,
        counted,
    )
    .with(gpu_mirror);
    let mut engine =
        tokio::task::spawn_blocking(|| Engine::new(reclaimer, received, publisher).run());
    let mut ended = None;
    while ended.is_none() {
        tokio::select! {
            () = &mut signaled => break,
            _ = hang_up.recv() => {
                service.reloading();
                let new = reload(flags, &config);
                let accepted = new.is_some();
                if let Some(new) = new {
                    // The tmpfs and the stores on it are there before the engine looks for them.
                    role.reload(&new);
                    let _engine_has_ended = commands.send(Command::Reload(Box::new(new)));
                }
                service.reloaded(accepted);
            },
            result = &mut engine => ended = Some(result),
        }
    }
    tracing::info!("stopping");
    service.stopping();
    let _engine_has_ended = commands.send(Command::Stop);
    let ended = match ended {
        Some(ended) => ended,
        None => engine.await,
    };
    let _nobody_listens = stop.send(true);
    if tokio::time::timeout(SOCKETS_CLOSE, closed).await.is_err() {
        tracing::warn!("a socket is left behind: another daemon is about to take its place");
    }
    servers.end().await?;
    role.end().await?;
    counting.await.context("the count of holders failed")?;
    declarations
        .await
        .context("the watch of the API server failed")?;
    ended.context("the engine failed")
}

/// Starts the GPU mirror, if it is configured. Without it clients load into host memory.
fn gpu_mirror(config: &Config, metrics: &Metrics) -> Option<GpuMirrorThread> {
    let table = config.file.gpu_mirror.clone()?;
    match GpuMirrorThread::start(table) {
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

/// Reads the configuration again; `None` if it is wrong.
fn reload(flags: &ConfigFlags, old: &Config) -> Option<Config> {
    let config = match flags.load() {
        Ok(config) => config,
        Err(error) => {
            for error in error.to_string().lines() {
                tracing::error!(
                    error,
                    "the new configuration is wrong; the one in force stays"
                );
            }
            return None;
        }
    };
    let unchanged = [
        ("listen", config.file.listen == old.file.listen),
        ("network", config.file.network == old.file.network),
        ("node", config.file.node == old.file.node),
        ("kubernetes", config.file.kubernetes == old.file.kubernetes),
        ("mount.path", !node_role::moved(old, &config)),
    ];
    for (field, _) in unchanged.iter().filter(|(_, same)| !same) {
        tracing::warn!(
            field,
            "a change of this field takes force when the daemon is restarted"
        );
    }
    let (before, after) = (&old.file.gpu_mirror, &config.file.gpu_mirror);
    if let Some(fields) = needs_restart(before.as_ref(), after.as_ref()) {
        tracing::warn!(
            fields,
            "changes of these fields take force when the daemon is restarted"
        );
    }
    tracing::info!("configuration read again");
    Some(config)
}
