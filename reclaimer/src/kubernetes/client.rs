//! A client for the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tetris_tls_roots::{RootsError, roots_for};
use thiserror::Error;

use super::WATCH_SECONDS;

/// Longest silence of the server. A watch is silent for at most [`WATCH_SECONDS`].
const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

/// The reason there is no client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The kubeconfig that was named cannot be used.
    #[error("kubeconfig {path}: {source}; name one that `kubectl --kubeconfig` accepts")]
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// Its mistake.
        source: KubeconfigError,
    },
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "found no way to an API server: {source}; run in a pod with a service account, set KUBECONFIG, or run without Kubernetes"
    )]
    NoCluster {
        /// The attempts.
        source: InferConfigError,
    },
    /// The kubeconfig names no certificates for the API server, and there are no others.
    #[error("API server: {0}")]
    Roots(#[from] RootsError),
    /// The way to the API server was found, but is not usable.
    #[error(
        "API server {url}: cannot make a client: {source}; check its certificates and credentials"
    )]
    Client {
        /// Its address.
        url: String,
        /// The mistake.
        source: Box<kube::Error>,
    },
}

/// A client by `kubeconfig`; where none is named, by `KUBECONFIG`, `~/.kube/config` or the pod's
/// service account, the first that is there. Makes no request.
pub async fn client(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => Config::infer()
            .await
            .map_err(|source| ClientError::NoCluster { source })?,
    };
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    // Kube's own retries would hide for minutes that the watch is down; `watch` backs off by
    // itself.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    // A kubeconfig may name none, for a server that the system's certificates sign.
    if config.root_cert.is_none() && config.root_cert_file.is_none() {
        config.root_cert = Some(roots_for(&url)?);
    }
    Client::try_from(config).map_err(|source| ClientError::Client {
        url,
        source: Box::new(source),
    })
}

async fn from_file(path: &Path) -> Result<Config, ClientError> {
    let failed = |source| ClientError::Kubeconfig {
        path: path.to_owned(),
        source,
    };
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(failed)
}
