//! The broker as the keeper of the stores of namespaces, and of models.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::Method;
use tetris_service_kit::unix_http::UnixClient;
use tokio::time::{Instant, sleep};

use super::sockets;
use crate::csi::{Keeper, Removal};
use crate::models::{ModelQuestion, ModelState, MountAnswer, MountOrder, order_mount};
use crate::mount::StoreDirectory;
use crate::process::{Process, ProcessesConfig};
use crate::processes::messages::{RemoveStore, RemovedStore};
use crate::store::StoreConfig;

/// Longest wait of a pod until the broker listens in its new store. The pod gets the store in any
/// case.
const SOCKET_WAIT: Duration = Duration::from_secs(1);
const SOCKET_PAUSE: Duration = Duration::from_millis(5);
/// Longest wait for an answer about a model, which the broker has.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for a store's removal. A pass may be under way, and no client waits for the
/// removal.
const REMOVAL_WAIT: Duration = Duration::from_mins(2);

/// The broker, which finds new stores by itself.
#[derive(Debug)]
pub(super) struct BrokerKeeper {
    removals: UnixClient,
    questions: UnixClient,
    /// The socket for mounts of models.
    mounts: PathBuf,
}

impl BrokerKeeper {
    /// The broker of these processes.
    pub(super) fn new(processes: &ProcessesConfig) -> Self {
        let socket = processes.socket_of(Process::Broker);
        Self {
            removals: UnixClient::new(socket.clone(), REMOVAL_WAIT),
            questions: UnixClient::new(socket, ANSWER),
            mounts: processes.models_socket(),
        }
    }
}

#[tonic::async_trait]
impl Keeper for BrokerKeeper {
    /// Waits until the broker listens: the pod that is about to start finds the store's socket
    /// there.
    async fn look_after(&self, store: &StoreConfig, directory: &StoreDirectory) {
        let deadline = Instant::now() + SOCKET_WAIT;
        while Instant::now() < deadline {
            if sockets::give(directory) {
                return;
            }
            sleep(SOCKET_PAUSE).await;
        }
        tracing::warn!(
            store = store.name,
            "the broker does not listen in the new store yet; loads there are private until it does"
        );
    }

    async fn remove(&self, store: &StoreConfig) -> Removal {
        let name = store.path.file_name().unwrap_or_default();
        let order = RemoveStore {
            directory: name.to_string_lossy().into_owned(),
        };
        let removed = self
            .removals
            .call(Method::POST, "/stores/removal", &order)
            .await;
        match removed {
            Ok(RemovedStore::Removed) => Removal::Removed,
            Ok(RemovedStore::InUse) => Removal::InUse,
            Ok(RemovedStore::Failed { reason }) => Removal::Failed(reason),
            Err(error) => Removal::Failed(format!("the broker cannot be asked: {error}")),
        }
    }

    async fn model(&self, question: &ModelQuestion) -> Result<ModelState, String> {
        let state = self.questions.call(Method::POST, "/models/state", question);
        state.await.map_err(|error| error.to_string())
    }

    fn mount_model(&self, order: &MountOrder, device: BorrowedFd<'_>) -> io::Result<MountAnswer> {
        order_mount(&self.mounts, order, device)
    }
}
