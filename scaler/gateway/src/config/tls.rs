//! TLS towards clients.

use std::path::PathBuf;

use serde::Deserialize;

/// Files of the certificate that the gateway shows to clients, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate, with those that lead to its authority behind it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}
