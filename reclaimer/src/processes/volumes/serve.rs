//! The CSI services: started with the process, started again when they fail or their configuration
//! changes.

use std::sync::Arc;
use std::time::Duration;

use tetris_service_kit::shutdown::until;
use tokio::sync::watch;
use tokio::time::Instant;

use super::keeper::BrokerKeeper;
use super::namespaces::ClusterNamespaces;
use super::state::VolumesState;
use super::wanted::WantedVolumes;
use crate::csi::{Namespaces, NoCluster, Stores, serve_csi};
use crate::process::Process;
use crate::report::ErrorClass;

/// The first wait after a failure, and the longest: the kubelet itself may be restarting.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

const NOT_REGISTERED: &str = "the kubelet has not registered the CSI driver";

impl WantedVolumes {
    fn stores(&self) -> Stores {
        let keeper = BrokerKeeper::new(&self.processes);
        Stores::new(self.stores.clone(), self.ground.clone(), keeper)
    }

    fn namespaces(&self, stopped: &watch::Receiver<bool>) -> Arc<dyn Namespaces> {
        if !self.kubernetes {
            let problem = "the daemon runs without Kubernetes; set `kubernetes.enabled`, or the flag --kubernetes";
            return Arc::new(NoCluster::new(problem));
        }
        let socket = self.processes.socket_of(Process::Cluster);
        Arc::new(ClusterNamespaces::follow(socket, stopped.clone()))
    }
}

/// Serves the kubelet until `stopped`, by the latest configuration.
pub(super) async fn follow(
    mut wanted: watch::Receiver<WantedVolumes>,
    state: Arc<VolumesState>,
    stopped: watch::Receiver<bool>,
) {
    let mut wait = FIRST_WAIT;
    while !*stopped.borrow() {
        let now = wanted.borrow_and_update().clone();
        let Some(csi) = now.csi.clone() else {
            state.no_driver();
            tokio::select! {
                () = changes_of(&mut wanted) => {}
                () = until(stopped.clone()) => return,
            }
            continue;
        };
        let mut changes = wanted.clone();
        let stop = async {
            tokio::select! {
                () = changes_of(&mut changes) => {}
                () = until(stopped.clone()) => {}
            }
        };
        state.waiting(NOT_REGISTERED.to_owned());
        let (registered, told) = watch::channel(false);
        let (counts, counted) = watch::channel(None);
        // Its end is that of this round.
        let (round, round_ended) = watch::channel(false);
        let namespaces = now.namespaces(&round_ended);
        let (node, stores) = (now.node.clone(), now.stores());
        let served = serve_csi(csi, node, stores, namespaces, registered, counts, stop);
        let began = Instant::now();
        // The senders go with the services, so all end.
        let (served, (), ()) = tokio::join!(
            served,
            each(told, |registered| if registered {
                state.registered();
            }),
            each(counted, |counts| if let Some(counts) = counts {
                state.counted(counts);
            }),
        );
        drop(round);
        let Err(error) = served else {
            state.waiting(NOT_REGISTERED.to_owned());
            continue;
        };
        if began.elapsed() > LONGEST_WAIT {
            wait = FIRST_WAIT;
        }
        tracing::error!(%error, again_in = ?wait, "pods of this node get no volumes");
        state.waiting(error.to_string());
        state.error(ErrorClass::Csi);
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
            () = until(stopped.clone()) => return,
            // The change may have corrected the mistake.
            () = changes_of(&mut wanted) => wait = FIRST_WAIT,
        }
    }
}

/// Does `with` each value until the sender is gone.
async fn each<T: Clone>(mut values: watch::Receiver<T>, mut with: impl FnMut(T)) {
    while values.changed().await.is_ok() {
        let value = values.borrow_and_update().clone();
        with(value);
    }
}

/// Completes at a change. When no one can change it any more, never.
async fn changes_of(wanted: &mut watch::Receiver<WantedVolumes>) {
    if wanted.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
