//! The CSI driver of a node: pods get their store as an ephemeral inline volume, read-only, and the
//! Python package (`python`) and models (`model`) as others.
//!
//! # Flow
//! The kubelet finds the registration socket, asks for the plugin, and from then on calls the CSI
//! services: a volume for a pod that starts, and its end. The pod's namespace decides its store
//! ([`choose`]), which is mounted at the kubelet's target. For a namespace's own store the driver
//! asks the API server for the namespace's identifier ([`Namespaces`]), because names can be given
//! again.
//!
//! # Guarantees
//! - Every call can be repeated, also after a restart of this process: the mounts are the only
//!   state.
//! - A later namespace of the same name never gets a namespace's own store. The store goes when its
//!   namespace is gone and no process uses it.
//! - Pods' mounts are read-only from the moment they are visible, in every mount namespace.
//! - Where the kernel maps ids of a tmpfs (Linux 6.3), no user of a pod owns a file of its store
//!   ([`IdmapMode`]), unless the pod has its own users. `/status` counts both kinds of volumes.
//! - No symbolic link is followed in a pod's directory, and nothing outside the kubelet's directory
//!   is touched.
//!
//! # Assumptions
//! The CSIDriver object has `podInfoOnMount: true`. Without it a pod could name another namespace
//! itself. The kubelet's directory is at the same path here and on the host, with
//! `mountPropagation: Bidirectional`. CAP_SYS_ADMIN, Linux 5.8. Kubernetes 1.29: earlier kubelets
//! send authorities that the server's library refuses ([`CsiConfig::registration_socket`]).
//!
//! # Caveats
//! A volume must say `readOnly: true`. If it does not, container runtimes mount it with the option
//! `rw`, and newer ones clear the read-only flag of the container's own mount.
//!
//! The driver advertises no capabilities. With GET_VOLUME_STATS the kubelet would count the store
//! once for each pod that shares it; `/metrics` reports its contents.

mod choose;
mod config;
mod domains;
mod endpoint;
mod error;
mod find;
mod idmap;
mod model_mount;
mod model_volume;
mod mounted;
mod mounting;
mod namespaces;
mod node;
mod publish;
mod python;
mod python_volume;
mod read_only;
mod registration;
mod remove;
mod request;
mod stores;
mod target;
pub mod wire;

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

pub use choose::{Chosen, OwnStore, choose};
pub use config::{CsiConfig, PerNamespace};
pub use domains::PodTrust;
pub use error::VolumeError;
pub(crate) use find::find_stores;
pub use idmap::IdmapMode;
pub use namespaces::{NamespaceError, Namespaces, NoCluster, PodName, PodPlace};
pub use python::PythonConfig;
pub use request::{Publish, VolumeContent, unpublish};
pub(crate) use stores::named_like_stores;
pub use stores::{Keeper, Removal, Stores};

use idmap::PodIds;
use node::CsiDriver;
use registration::Registrar;
use wire::identity_server::IdentityServer;
use wire::node_server::NodeServer;
use wire::registration_server::RegistrationServer;

use crate::report::VolumeStatus;

/// Time for calls in progress at the end of the service. Each takes some milliseconds.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// The reason the driver does not serve, or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CsiError {
    /// Another process serves this driver.
    #[error("another process listens on `{}`; does a second daemon run on this node?", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the socket's name.
    #[error("`{}` is not a socket; remove it if nothing needs it", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The kubelet did not register the driver.
    #[error("the kubelet did not register driver `{driver}`: {message}")]
    NotRegistered {
        /// The driver's name.
        driver: String,
        /// The kubelet's message.
        message: String,
    },
    /// A server failed.
    #[error("the CSI services failed: {0}")]
    Server(#[from] tonic::transport::Error),
    /// A server ended without a signal to stop.
    #[error("the CSI services ended by themselves")]
    Ended,
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Serves the kubelet until `stop` is ready, then lets calls in progress end and removes the
/// sockets. Mounts stay.
///
/// `node` is the node's name; `namespaces` lists the namespaces; `volumes` gets the
/// number of pods' volumes whenever it changes. The configuration is
/// one in which [`CsiConfig::mistakes`] finds none. `registered` becomes true once the kubelet has registered
/// the driver; the caller of a new call makes it false again.
///
/// # Errors
/// When a socket cannot be had, and when the kubelet refuses the driver: call it again after a
/// while.
pub async fn serve_csi(
    config: CsiConfig,
    node: String,
    stores: Stores,
    namespaces: Arc<dyn Namespaces>,
    registered: watch::Sender<bool>,
    volumes: watch::Sender<Option<VolumeStatus>>,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), CsiError> {
    let driver_name = config.driver.clone();
    let ids = tokio::task::spawn_blocking(move || PodIds::new(config.idmap)).await;
    let ids = ids.map_err(|_| CsiError::Ended)?;
    if let Some(reason) = ids.missing_because() {
        tracing::warn!(
            %reason,
            "mounts of pods are not idmapped: root of a container owns what root of the node owns in its store"
        );
    }
    let driver = CsiDriver::new(config.clone(), node, stores, namespaces, ids, volumes);
    let counting = driver.clone();
    let counted = tokio::task::spawn_blocking(move || {
        counting.unmount_earlier_packages();
        counting.count_volumes();
    })
    .await;
    counted.map_err(|_| CsiError::Ended)?;
    let (listener, csi_name) = endpoint::listen(&config.socket()).await?;
    let (registry, registration_name) = endpoint::listen(&config.registration_socket()).await?;
    let (refusals, mut refused) = mpsc::channel(1);
    let (stopping, stopped) = watch::channel(false);
    let registrar = Registrar::new(&config, refusals, registered);
    let csi = Server::builder()
        .add_service(IdentityServer::new(driver.clone()))
        .add_service(NodeServer::new(driver.clone()));
    let registration = Server::builder().add_service(RegistrationServer::new(registrar));
    let mut servers = pin!(async {
        tokio::try_join!(
            serve(csi, listener, stopped.clone()),
            serve(registration, registry, stopped.clone())
        )
    });
    let outcome = tokio::select! {
        ended = &mut servers => return Err(ended.map_or_else(CsiError::from, |_| CsiError::Ended)),
        () = stop => Ok(()),
        () = driver.remove_stores() => return Err(CsiError::Ended),
        Some(message) = refused.recv() => Err(CsiError::NotRegistered { driver: driver_name, message }),
    };
    // The kubelet forgets the driver first, and then finds it gone.
    drop(registration_name);
    let _servers_listen = stopping.send(true);
    if tokio::time::timeout(LAST_CALLS, servers).await.is_err() {
        tracing::warn!("the kubelet keeps a connection open; hanging up");
    }
    drop(csi_name);
    outcome
}

async fn serve(
    router: Router,
    listener: UnixListener,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let incoming = UnixListenerStream::new(listener);
    let stop = async move {
        let _stopped = stopped.wait_for(|stopped| *stopped).await;
    };
    router.serve_with_incoming_shutdown(incoming, stop).await
}
