//! The daemon's configuration: a TOML file, and flags that take precedence over it.

mod check;
mod checked;
mod error;
mod flags;
mod lines;
mod node;
mod read;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetris_reclaimer_core::{Policy, PolicyConfig};

use crate::cold::ColdConfig;
use crate::gpu_mirror::GpuMirrorConfig;
use crate::http::NetworkConfig;
use crate::ingest::IngestConfig;
use crate::keep_warm::Declaration;
use crate::scrub::ScrubConfig;
use crate::store::StoreConfig;
use read::ReadFile;

pub use error::{ConfigError, ConfigMistake};
pub use flags::ConfigFlags;
pub use node::{NodeFlags, NodeTables};

/// A configuration as it is written down. Fields that are left out have their defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The node's name, for `/status` and for the watch of its pods.
    pub node: Option<String>,
    /// Address of the HTTP server of all pages, `127.0.0.1:9460`; none without it.
    pub listen: Option<SocketAddr>,
    /// The stores.
    pub stores: Vec<StoreConfig>,
    /// Directory of learned state; by default each store keeps its own, which lives as long as its
    /// objects.
    pub state_dir: Option<PathBuf>,
    /// Seconds between two passes when nothing happens.
    #[serde(with = "tetris_units::duration::seconds")]
    pub interval_secs: u64,
    /// Milliseconds between two looks at how full the stores are.
    #[serde(with = "tetris_units::duration::milliseconds")]
    pub watermark_check_ms: u64,
    /// Hours that a quarantined object stays for inspection.
    #[serde(with = "tetris_units::duration::hours")]
    pub quarantine_hours: u64,
    /// Servers for other hosts and pods.
    pub network: NetworkConfig,
    /// Policies of the reclaimer.
    pub policy: PolicyConfig,
    /// Cost of a reload, for policies that weigh it.
    pub reload_cost: ReloadCostConfig,
    /// Checks of the stored bytes.
    pub scrub: ScrubConfig,
    /// Pulled models on a local disk; without it there are none.
    pub cold: Option<ColdConfig>,
    /// Files that clients pass, which can only read the store.
    pub ingest: IngestConfig,
    /// One copy of each tensor in device memory; without it no device is touched.
    pub gpu_mirror: Option<GpuMirrorConfig>,
    /// Meanings of the names by which pods declare models.
    pub models: BTreeMap<String, Vec<String>>,
    /// The watch of pods' declarations.
    pub kubernetes: KubernetesConfig,
    /// The processes of one daemon.
    pub processes: crate::process::ProcessesConfig,
    /// The tmpfs of the stores; without this table the daemon mounts none.
    pub mount: Option<crate::mount::MountTable>,
    /// Volumes for pods.
    pub csi: Option<crate::csi::CsiConfig>,
}

/// Cost of a model's reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReloadCostConfig {
    /// Milliseconds that every load takes.
    #[serde(with = "tetris_units::duration::milliseconds")]
    pub fixed_ms: u64,
    /// Bytes per second that are read, hashed and published.
    #[serde(with = "tetris_units::size")]
    pub bytes_per_sec: u64,
}

/// The watch of pods' declarations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesConfig {
    /// True if the daemon watches the API server.
    pub enabled: bool,
    /// The annotation of pods that names their models.
    pub annotation: String,
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that this was made from.
    pub file: ConfigFile,
    /// Policies of the reclaimer.
    pub policy: Policy,
    /// Meanings of models' names.
    pub models: BTreeMap<String, Vec<Declaration>>,
    /// The checked tables of a node of a cluster.
    pub tables: NodeTables,
}

impl Default for ConfigFile {
    fn default() -> Self {
        Self {
            node: None,
            listen: None,
            stores: Vec::new(),
            state_dir: None,
            interval_secs: 60,
            watermark_check_ms: 1000,
            quarantine_hours: 24,
            network: NetworkConfig::default(),
            policy: PolicyConfig::default(),
            reload_cost: ReloadCostConfig::default(),
            scrub: ScrubConfig::default(),
            cold: None,
            ingest: IngestConfig::default(),
            gpu_mirror: None,
            models: BTreeMap::new(),
            kubernetes: KubernetesConfig::default(),
            processes: crate::process::ProcessesConfig::default(),
            mount: None,
            csi: None,
        }
    }
}

impl Default for ReloadCostConfig {
    /// A first load in the density benchmark, and a framework's time to start one.
    fn default() -> Self {
        Self {
            fixed_ms: 100,
            bytes_per_sec: 1 << 30,
        }
    }
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            annotation: "tetris.dev/models".to_owned(),
        }
    }
}

impl ConfigFile {
    /// Reads a file's text. `path` is named in errors.
    ///
    /// # Errors
    /// [`ConfigError::Wrong`] with all its mistakes.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        ReadFile::parse(text, path)?.complete()
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read, or has mistakes.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        ReadFile::read(path)?.complete()
    }

    /// The configuration as `--config` takes it.
    ///
    /// # Errors
    /// When TOML cannot express a value.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }
}
