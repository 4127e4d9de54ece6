//! Client of the API server that the environment configures.

use std::time::Duration;

use kube::config::InferConfigError;
use kube::{Client, Config};
use tetris_tls_roots::{RootsError, roots_for};
use thiserror::Error;

/// Timeout for connecting to the API server. There is no read timeout, as watches are silent for
/// long.
const CONNECT: Duration = Duration::from_secs(10);

/// The reason there is no client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Neither a kubeconfig nor a service account.
    #[error(
        "found no configuration of an API server: {0}; run in a pod with a service account, or set KUBECONFIG"
    )]
    NoCluster(#[from] InferConfigError),
    /// An unusable configuration of the API server.
    #[error("API server: cannot create a client: {0}; check its certificates and credentials")]
    Client(#[from] kube::Error),
    /// No certificates to check the API server by.
    #[error("API server: {0}")]
    Roots(#[from] RootsError),
}

/// Creates a client of the API server that the environment configures.
///
/// # Errors
///
/// Fails if none is configured, or its certificates or credentials are unusable.
pub async fn client() -> Result<Client, ClientError> {
    let mut config = Config::infer().await?;
    config.connect_timeout = Some(CONNECT);
    // Passes and watches retry by themselves, and must not wait for one function.
    config.default_retry = false;
    // A kubeconfig may name none, for a server that the system's certificates sign.
    if config.root_cert.is_none() && config.root_cert_file.is_none() {
        config.root_cert = Some(roots_for(&config.cluster_url.to_string())?);
    }
    Ok(Client::try_from(config)?)
}
