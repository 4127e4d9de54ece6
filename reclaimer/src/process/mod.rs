//! Processes of one daemon: their names, and the sockets by which they find each other.

mod config;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use config::{ProcessesConfig, Switch};

/// One process of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Process {
    /// Mounts, volumes of pods, and registration with the kubelet.
    Volumes,
    /// Stores: passes, sockets of pods, files of pods.
    Broker,
    /// The API server, and pages over the network.
    Cluster,
    /// The GPU mirror.
    Mirror,
}

impl Process {
    /// All processes.
    pub const ALL: [Self; 4] = [Self::Volumes, Self::Broker, Self::Cluster, Self::Mirror];

    /// Its subcommand, and its name in paths, logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volumes => "volumes",
            Self::Broker => "broker",
            Self::Cluster => "cluster",
            Self::Mirror => "mirror",
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
