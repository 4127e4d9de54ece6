//! Addresses from the command line.

use std::net::SocketAddr;

use tokio::net::TcpListener;

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} {address}: {source}; give an address of this host with a port that is free")]
pub struct ListenError {
    /// Name of the flag with the address.
    pub flag: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// Cause.
    pub source: std::io::Error,
}

/// Listens on `address`, which the user gave by `flag`.
///
/// # Errors
///
/// Fails if the address is not of this host, is taken, or needs more rights.
pub async fn listen(flag: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| ListenError {
        flag,
        address,
        source,
    })
}
