//! Configuration of the volumes, and the directories that follow from it.

use std::path::PathBuf;

use crate::config::Config;
use crate::csi::{CsiConfig, named_like_stores};
use crate::mount::StoreGround;
use crate::process::ProcessesConfig;
use crate::store::StoreConfig;

/// Configuration of the services.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WantedVolumes {
    pub(super) csi: Option<CsiConfig>,
    pub(super) node: String,
    pub(super) stores: Vec<StoreConfig>,
    pub(super) ground: StoreGround,
    pub(super) processes: ProcessesConfig,
    /// True if there is an API server to ask.
    pub(super) kubernetes: bool,
}

impl WantedVolumes {
    pub(super) fn of(config: &Config) -> Self {
        let (file, mount) = (&config.file, &config.tables.mount);
        let rule = file.csi.as_ref().and_then(|csi| csi.per_namespace.as_ref());
        let root: Option<PathBuf> = mount
            .as_ref()
            .map(|mount| mount.path.clone())
            .or_else(|| rule.map(|rule| rule.parent().to_owned()));
        Self {
            csi: file.csi.clone(),
            node: file.node.clone().unwrap_or_default(),
            stores: file.stores.clone(),
            ground: StoreGround {
                root,
                user: mount.as_ref().map_or(0, |mount| mount.user),
            },
            processes: file.processes.clone(),
            kubernetes: file.kubernetes.enabled,
        }
    }

    /// The stores that are there, of namespaces and configured ones.
    pub(super) fn directories(&self) -> (&StoreGround, Vec<PathBuf>) {
        let rule = self.csi.as_ref().and_then(|csi| csi.per_namespace.as_ref());
        let of_namespaces = rule.into_iter().flat_map(named_like_stores);
        let of_namespaces = of_namespaces.map(|store| store.config.path);
        let fixed = self.stores.iter().map(|store| store.path.clone());
        (&self.ground, fixed.chain(of_namespaces).collect())
    }

    /// The directory in which stores of namespaces are made.
    pub(super) fn parent(&self) -> Option<PathBuf> {
        let rule = self.csi.as_ref()?.per_namespace.as_ref()?;
        Some(rule.parent().to_owned())
    }
}
