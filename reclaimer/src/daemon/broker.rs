//! The daemon's process with the stores: `tetris-node broker`. It needs no privilege, no token and
//! no network.
//!
//! It waits for the tmpfs that `volumes` mounts, finds the stores by itself, and serves its pages
//! and the messages of the other processes on a Unix socket.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tetris_service_kit::command::runtime;
use tetris_service_kit::freed_pages;
use tetris_service_kit::http::ConnectionLimits;
use tetris_service_kit::shutdown::until;
use tetris_service_kit::traces::while_exporting;
use tetris_service_kit::unix_http;
use tetris_store_layout::Store;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::core::Core;
use super::other::refuse_others;
use super::shown_gpu_mirror;
use super::threads::Threads;
use crate::config::{Config, ConfigFlags};
use crate::csi::PerNamespace;
use crate::http::{Health, PageSource as _, Pages};
use crate::keep_warm::WarmSet;
use crate::models::{KeptModels, serve_mounts};
use crate::mount::is_tmpfs_mount;
use crate::process::{Process, ProcessesConfig};
use crate::processes::broker::{Declared, MessageState, ProcessesView, ReceivedReports, router};
use crate::processes::mirror::beside;
use crate::processes::{sandbox, traces};
use crate::report::NodeStatus;
use crate::report::process_report::SandboxReport;
use crate::store::remove_leftovers;

/// Time between two looks for the tmpfs.
const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the configured stores on a tmpfs that is there.
const STORES_WAIT: Duration = Duration::from_secs(2);
/// Time between two looks at the other processes.
const PROCESSES_LOOK: Duration = Duration::from_secs(1);
/// Limits of the Unix socket. Its clients are the other processes.
const SOCKET: ConnectionLimits = ConnectionLimits {
    connections: 128,
    per_address: 64,
    head: Duration::from_secs(5),
    pace: ConnectionLimits::PACE,
    stop: Duration::from_secs(2),
};

/// A reason to wait, for readiness.
type Waits = Arc<Mutex<Option<String>>>;

/// Runs until SIGTERM or SIGINT, as [`run`](super::run) does.
///
/// # Errors
/// When the configuration is wrong, another daemon looks after a store
/// ([`OtherDaemon`](super::OtherDaemon)), the Unix socket cannot be listened on, or a part fails.
pub fn broker(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    sandbox::enter(Process::Broker, &config, flags.config.as_deref())?;
    let sandbox = SandboxReport::of_this_process();
    // Passes and the scrub have their own threads.
    let via = traces::via(Process::Broker, &config.file.processes)?;
    runtime()?.block_on(while_exporting(via, serve(flags, config, sandbox)))
}

async fn serve(flags: &ConfigFlags, config: Config, sandbox: SandboxReport) -> Result<()> {
    tokio::spawn(freed_pages::follow());
    let reports = Arc::new(ReceivedReports::default());
    let models = KeptModels::default();
    let of_reports = Arc::clone(&reports);
    let view = ProcessesView::new(&config.file, of_reports, sandbox, models.clone());
    let waits = Waits::default();
    let missing = {
        let (view, waits) = (view.clone(), Arc::clone(&waits));
        move || {
            let waits = waits.lock().unwrap_or_else(PoisonError::into_inner);
            waits.iter().cloned().chain(view.missing()).collect()
        }
    };
    let mut core = Core::new(config, false, |limit| {
        Health::new(limit).with_missing(missing)
    })?;
    core.models = models;
    let samples = view.clone();
    core.metrics.show_processes(move || samples.samples());
    let declared = Arc::new(Declared::new(
        initial_declarations(&core.config),
        core.commands.clone(),
    ));
    let threads = Threads::of_pages().context("cannot start the thread of pages")?;
    let pages = Pages::new(core.pages());
    let (rule, followed) = watch::channel(per_namespace(&core.config).cloned());
    let messages = router(MessageState {
        declared: Arc::clone(&declared),
        reports,
        metrics: Arc::clone(&core.metrics),
        commands: core.commands.clone(),
        rule: followed,
        models: core.models.clone(),
    });
    let mut tasks = JoinSet::new();
    let (listener, mounts) = {
        let _threads = threads.handle().enter();
        let listener = listen(&core.config.file.processes)?;
        let mounts = unix_http::listen(&core.config.file.processes.models_socket())?;
        (listener, mounts)
    };
    let serving = serve_mounts(mounts, core.models.clone(), until(core.stopped.clone()));
    tasks.spawn_on(serving, threads.handle());
    let routes = pages.all().merge(messages);
    let served = unix_http::serve(listener, routes, SOCKET, until(core.stopped.clone()));
    tasks.spawn_on(served, threads.handle());
    let sweeping = or_stopped(core.stopped.clone(), async move { pages.sweep().await });
    tasks.spawn_on(sweeping, threads.handle());
    let following = follow_processes(view.clone(), Arc::clone(&declared), core.status.clone());
    tasks.spawn(or_stopped(core.stopped.clone(), following));
    let ended = if wait_for_stores(&mut core, &waits).await {
        look_after(flags, core, &declared, view, &rule).await
    } else {
        core.give_up();
        Ok(())
    };
    while let Some(ended) = tasks.join_next().await {
        ended.context("a part of the broker failed")?;
    }
    ended
}

/// Opens the stores and looks after them, until a signal to stop.
async fn look_after(
    flags: &ConfigFlags,
    core: Core,
    declared: &Declared,
    view: ProcessesView,
    rule: &watch::Sender<Option<PerNamespace>>,
) -> Result<()> {
    if let Some(parent) = core.config.file.parent_of_namespaces()
        && let Err(error) = remove_leftovers(parent)
    {
        tracing::warn!(path = %parent.display(), %error, "a store whose removal has begun was left behind");
    }
    let file = &core.config.file;
    refuse_others(&file.stores)?;
    refuse_others(&file.stores_of_namespaces().stores)?;
    let reclaimer = core.reclaimer();
    declared.begin(reclaimer.declared().clone());
    let claimed = core.claim(&reclaimer).await?;
    let amend = Box::new(move |status: &mut NodeStatus| view.amend(status));
    // The mirror is another process.
    let table = core.config.file.gpu_mirror.as_ref();
    let started = table.map(|table| beside(&core.config.file.processes, table));
    let gpu_mirror = started.and_then(|started| shown_gpu_mirror(started, &core.metrics));
    let reloaded = |config: &Config| drop(rule.send_replace(per_namespace(config).cloned()));
    core.look_after(flags, reclaimer, claimed, gpu_mirror, amend, reloaded)
        .await
}

/// Declarations before the stores are open and `cluster` has spoken.
fn initial_declarations(config: &Config) -> WarmSet {
    if config.file.kubernetes.enabled {
        WarmSet::before_first_sync(None, SystemTime::UNIX_EPOCH)
    } else {
        WarmSet::no_cluster()
    }
}

fn per_namespace(config: &Config) -> Option<&PerNamespace> {
    config.file.csi.as_ref()?.per_namespace.as_ref()
}

/// Listens on the broker's socket. Its directory is made where another user or a container did not.
fn listen(processes: &ProcessesConfig) -> Result<UnixListener> {
    let directory = processes.directory_of(Process::Broker);
    let made = std::fs::create_dir_all(&directory);
    made.with_context(|| format!("cannot make `{}`", directory.display()))?;
    let path = processes.socket_of(Process::Broker);
    let listener = unix_http::listen(&path)?;
    tracing::info!(socket = %path.display(), "serving pages and messages");
    Ok(listener)
}

/// Waits until the tmpfs of the table `mount` is mounted, with the configured stores. Returns false
/// at a signal to stop.
async fn wait_for_stores(core: &mut Core, waits: &Waits) -> bool {
    let Some(mount) = core.config.tables.mount.clone() else {
        return true;
    };
    let says = |reason: Option<String>| {
        *waits.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    };
    let mut told = false;
    while !is_tmpfs_mount(&mount.path).unwrap_or(false) {
        if !std::mem::replace(&mut told, true) {
            tracing::info!(path = %mount.path.display(), "waiting for the tmpfs of the stores, which `tetris-node volumes` mounts");
            says(Some(
                "the tmpfs of the stores is not mounted: see the log of `tetris-node volumes`"
                    .to_owned(),
            ));
        }
        core.health.beat();
        tokio::select! {
            () = &mut core.signaled => return false,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    says(None);
    let stores = core.config.file.stores.iter();
    let on_it = stores.filter(|store| store.path.starts_with(&mount.path));
    let on_it: Vec<_> = on_it.map(|store| store.path.clone()).collect();
    let deadline = Instant::now() + STORES_WAIT;
    while on_it.iter().any(|store| Store::open(store).is_err()) && Instant::now() < deadline {
        tokio::select! {
            () = &mut core.signaled => return false,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
    true
}

/// Follows the other processes: declarations get stale when `cluster` is silent, and the status
/// shows changes between two passes too.
async fn follow_processes(
    view: ProcessesView,
    declared: Arc<Declared>,
    status: watch::Sender<Option<Arc<NodeStatus>>>,
) {
    loop {
        tokio::time::sleep(PROCESSES_LOOK).await;
        declared.check();
        status.send_if_modified(|latest| {
            let Some(shown) = latest else { return false };
            let changed = !view.is_shown_by(shown);
            if changed {
                view.amend(Arc::make_mut(shown));
            }
            changed
        });
    }
}

async fn or_stopped(stopped: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = until(stopped) => {}
    }
}
