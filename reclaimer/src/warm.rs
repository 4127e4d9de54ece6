//! What is declared warm: models that pods of this node run or are about to (T_warm of Tetris 4).

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// A model as a pod names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declaration {
    /// By its manifest, as `tetris hash` prints it: `manifest:<64 hex digits>`.
    Manifest(String),
    /// By the SHA-256 of its file, as Hugging Face names it: `sha256:<64 hex digits>`.
    Sha256(String),
    /// By a name that the daemon's configuration explains: anything else.
    Name(String),
}

/// A pod, by what never changes of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// How far the declarations can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Freshness {
    /// Nobody declares anything here: there is no cluster.
    NoCluster,
    /// The API server was not reached since the daemon started.
    Unknown,
    /// The watch is up.
    Current,
    /// The watch broke: these are the last declarations known. They stay in force.
    Stale {
        /// When it broke.
        #[serde(skip)]
        since: SystemTime,
    },
}

/// All declarations at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmSet {
    /// How far they can be trusted.
    pub freshness: Freshness,
    /// What each pod declares. Pods that declare nothing are left out.
    pub pods: BTreeMap<Pod, BTreeSet<Declaration>>,
}

impl WarmSet {
    /// What holds where there is no cluster.
    pub fn no_cluster() -> Self {
        Self {
            freshness: Freshness::NoCluster,
            pods: BTreeMap::new(),
        }
    }
}
