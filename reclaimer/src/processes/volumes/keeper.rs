//! The broker as the keeper of the stores of namespaces.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::Method;
use tetris_service_kit::unix_http::UnixClient;
use tokio::time::{Instant, sleep};

use super::sockets;
use crate::csi::{Keeper, Removal};
use crate::mount::StoreDirectory;
use crate::processes::messages::{RemoveStore, RemovedStore};
use crate::store::StoreConfig;

/// Longest wait of a pod until the broker listens in its new store. The pod gets the store in any
/// case.
const SOCKET_WAIT: Duration = Duration::from_secs(1);
const SOCKET_PAUSE: Duration = Duration::from_millis(5);
/// Longest wait for a store's removal. A pass may be under way, and no client waits for the
/// removal.
const REMOVAL_WAIT: Duration = Duration::from_mins(2);

/// The broker, which finds new stores by itself.
#[derive(Debug)]
pub(super) struct BrokerKeeper(UnixClient);

impl BrokerKeeper {
    /// The broker at `socket`.
    pub(super) fn new(socket: PathBuf) -> Self {
        Self(UnixClient::new(socket, REMOVAL_WAIT))
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
        let removed = self.0.call(Method::POST, "/stores/removal", &order).await;
        match removed {
            Ok(RemovedStore::Removed) => Removal::Removed,
            Ok(RemovedStore::InUse) => Removal::InUse,
            Ok(RemovedStore::Failed { reason }) => Removal::Failed(reason),
            Err(error) => Removal::Failed(format!("the broker cannot be asked: {error}")),
        }
    }
}
