//! A client for the API server.

use std::time::Duration;

use kube::config::InferConfigError;
use kube::{Client, Config};
use tetris_tls_roots::{RootsError, roots_for};
use thiserror::Error;

/// Timeout of a request for one of the small objects here.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The reason there is no client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Neither a kubeconfig nor a service account was found.
    #[error(
        "found no way to an API server: {0}; run in a pod with a service account, or set KUBECONFIG"
    )]
    NoCluster(#[from] InferConfigError),
    /// The kubeconfig names no certificates for the API server, and there are no others.
    #[error("API server: {0}")]
    Roots(#[from] RootsError),
    /// The way to the API server was found, but is not usable.
    #[error(
        "API server {url}: cannot make a client: {source}; check its certificates and credentials"
    )]
    Client {
        /// URL of the API server.
        url: String,
        /// Cause.
        source: Box<kube::Error>,
    },
}

/// A client by `KUBECONFIG`, `~/.kube/config` or the pod's service account, the first that is there. Makes no request.
pub async fn client() -> Result<Client, ClientError> {
    let mut config = Config::infer().await?;
    config.connect_timeout = Some(TIMEOUT);
    config.read_timeout = Some(TIMEOUT);
    // Kube's own retries would hide for minutes that something is wrong; passes back off by themselves.
    config.default_retry = false;
    let url = config.cluster_url.to_string();
    // A kubeconfig may name none, for a server that the system's certificates sign.
    if config.root_cert.is_none() && config.root_cert_file.is_none() {
        config.root_cert = Some(roots_for(&url)?);
    }
    Client::try_from(config).map_err(|source| {
        let source = Box::new(source);
        ClientError::Client { url, source }
    })
}
