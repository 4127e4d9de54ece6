//! The CSI services around the daemon: started with it, started again when they fail or their
//! configuration changes.

use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cluster::Cluster;
use crate::config::ConfigFile;
use crate::csi::{CsiConfig, Keeper, Removal, Stores, serve_csi};
use crate::daemon::DriverReports;
use crate::http::DriverState;
use crate::metrics::Metrics;
use crate::reclaimer::engine::{Command, StoreRemoval};
use crate::report::ErrorClass;
use crate::store::StoreConfig;
use tetris_service_kit::shutdown::until;

/// The first wait after a failure, and the longest: the kubelet itself may be restarting.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// Longest wait of a pod until the daemon looks after its new store. The pod gets the store in any
/// case.
const ENGINE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a store's removal. A pass may be under way, and no client waits for the
/// removal.
const REMOVAL_WAIT: Duration = Duration::from_mins(2);

/// Configuration of the services.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WantedVolumes {
    csi: Option<CsiConfig>,
    node: String,
    stores: Vec<StoreConfig>,
    /// True if there is an API server to ask.
    kubernetes: bool,
}

impl WantedVolumes {
    pub(super) fn of(config: &ConfigFile) -> Self {
        Self {
            csi: config.csi.clone(),
            node: config.node.clone().unwrap_or_default(),
            stores: config.stores.clone(),
            kubernetes: config.kubernetes.enabled,
        }
    }
}

/// Serves the kubelet until the daemon stops, by the latest configuration.
pub(super) fn serve(
    wanted: watch::Receiver<WantedVolumes>,
    commands: Sender<Command>,
    metrics: Arc<Metrics>,
    reports: DriverReports,
    stopped: watch::Receiver<bool>,
) -> JoinHandle<()> {
    tokio::spawn(follow(wanted, commands, metrics, reports, stopped))
}

async fn follow(
    mut wanted: watch::Receiver<WantedVolumes>,
    commands: Sender<Command>,
    metrics: Arc<Metrics>,
    reports: DriverReports,
    stopped: watch::Receiver<bool>,
) {
    let mut wait = FIRST_WAIT;
    let mut cluster = Cluster::default();
    while !*stopped.borrow() {
        let now = wanted.borrow_and_update().clone();
        let Some(csi) = now.csi else {
            reports.state.send_replace(DriverState::Absent);
            reports.volumes.send_replace(None);
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { return },
                () = until(stopped.clone()) => return,
            }
            continue;
        };
        let namespaces = match csi.per_namespace {
            Some(_) => cluster.namespaces(now.kubernetes, &metrics, &stopped).await,
            None => Cluster::none(),
        };
        let stores = Stores::new(now.stores, EngineKeeper(Mutex::new(commands.clone())));
        let mut changes = wanted.clone();
        let stop = async {
            tokio::select! {
                // An error means that nobody can change it any more.
                Ok(()) = changes.changed() => {}
                () = until(stopped.clone()) => {}
            }
        };
        reports.state.send_replace(DriverState::Waiting);
        let (registered, mut told) = watch::channel(false);
        let volumes = reports.volumes.clone();
        let served = serve_csi(csi, now.node, stores, namespaces, registered, volumes, stop);
        let registration = async {
            if told.wait_for(|registered| *registered).await.is_ok() {
                reports.state.send_replace(DriverState::Registered);
            }
        };
        let began = tokio::time::Instant::now();
        // The sender goes with the services, so both end.
        let (served, ()) = tokio::join!(served, registration);
        reports.state.send_replace(DriverState::Waiting);
        let Err(error) = served else {
            continue;
        };
        if began.elapsed() > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        tracing::error!(%error, again_in = ?wait, "pods of this node get no volumes");
        metrics.error(ErrorClass::Csi, None);
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            () = until(stopped.clone()) => return,
            // The change may have corrected the mistake.
            () = changes_of(&mut wanted) => wait = FIRST_WAIT,
        }
    }
}

async fn changes_of(wanted: &mut watch::Receiver<WantedVolumes>) {
    if wanted.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The engine as the keeper of stores of namespaces. A sender of the standard library is not shared
/// between threads; calls come one at a time.
struct EngineKeeper(Mutex<Sender<Command>>);

impl EngineKeeper {
    fn send(&self, command: Command) -> bool {
        let commands = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        commands.send(command).is_ok()
    }
}

impl Keeper for EngineKeeper {
    /// Waits until the engine looks after it: the pod that is about to start finds the store's
    /// socket there.
    fn look_after(&self, store: &StoreConfig) {
        let (done, looked_after): (SyncSender<()>, _) = sync_channel(1);
        let sent = self.send(Command::Store(store.clone(), done));
        if sent && looked_after.recv_timeout(ENGINE_WAIT).is_err() {
            tracing::warn!(
                store = store.name,
                "the daemon is busy; loads in this store read files by themselves until it is done"
            );
        }
    }

    fn remove(&self, store: &StoreConfig) -> Removal {
        let (done, removed) = sync_channel(1);
        if !self.send(Command::Remove(store.clone(), done)) {
            return Removal::Failed("the daemon stops".to_owned());
        }
        match removed.recv_timeout(REMOVAL_WAIT) {
            Ok(StoreRemoval::Done) => Removal::Removed,
            Ok(StoreRemoval::InUse) => Removal::InUse,
            Ok(StoreRemoval::Failed(problem)) => Removal::Failed(problem),
            Err(RecvTimeoutError::Timeout) => Removal::Failed("the daemon is busy".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Removal::Failed("the daemon stops".to_owned()),
        }
    }
}
