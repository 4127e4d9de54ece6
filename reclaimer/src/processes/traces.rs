//! Spans of the processes: `cluster` has the network, and forwards the connections of the others to the collector.

use std::path::PathBuf;

use tetris_service_kit::traces::{Uri, Via, collector};
use thiserror::Error;

use crate::process::{Process, ProcessesConfig};

/// Port of a collector whose address has none.
const PORT: u16 = 80;

/// A collector that the processes cannot reach.
#[derive(Debug, Error)]
#[error(
    "collector of traces `{0}`: expected http://HOST:PORT, since `tetris-node cluster` forwards connections as they are; have a collector on the node or in the cluster that speaks TLS to others"
)]
pub struct NotForwarded(String);

/// The Unix socket at which `cluster` takes connections for the collector.
pub(crate) fn socket(processes: &ProcessesConfig) -> PathBuf {
    processes.directory_of(Process::Cluster).join("traces")
}

/// Port at which a collector listens.
pub(crate) fn port(collector: &Uri) -> u16 {
    collector.port_u16().unwrap_or(PORT)
}

/// The path of this process's spans to the collector.
///
/// # Errors
///
/// Fails if the collector is reached by TLS.
pub(crate) fn via(process: Process, processes: &ProcessesConfig) -> Result<Via, NotForwarded> {
    let is_tls = |uri: &Uri| uri.scheme_str() == Some("https");
    if let Some(uri) = collector().filter(is_tls) {
        return Err(NotForwarded(uri.to_string()));
    }
    Ok(match process {
        Process::Cluster => Via::Network,
        Process::Broker | Process::Volumes | Process::Mirror => Via::Socket(socket(processes)),
    })
}
