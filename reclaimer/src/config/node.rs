//! Checks of the tables of a cluster's node: the tmpfs mount and the volumes for pods.

use std::path::Path;

use clap::Args;
use nix::sys::stat::{makedev, stat};

use super::ConfigFile;
use crate::csi::find_stores;
use crate::field_error::FieldError;
use crate::mount::{MountConfig, MountTable};
use crate::store::FoundStores;

/// Flags for the tables of a node of a cluster.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeFlags {
    /// Memory limit of this container: the size of a `mount` without `size_bytes` follows from it
    #[arg(long, value_name = "SIZE", env = "TETRIS_MEMORY_LIMIT", hide_env_values = true, value_parser = tetris_units::size::parse)]
    pub memory_limit: Option<u64>,
}

/// Checked tables of a node of a cluster.
#[derive(Debug, Clone, Default)]
pub struct NodeTables {
    /// The tmpfs of the stores, if the daemon mounts one.
    pub mount: Option<MountConfig>,
}

impl NodeFlags {
    /// Puts the flags over the tables of `file`.
    pub(super) fn apply(&self, file: &mut ConfigFile) {
        if let Some(mount) = &mut file.mount {
            mount.memory_limit_bytes = self.memory_limit.or(mount.memory_limit_bytes);
        }
    }
}

impl ConfigFile {
    /// Checks the tables. Mistakes go to `errors`.
    pub(super) fn check_tables(&self, errors: &mut Vec<FieldError>) -> NodeTables {
        let mount = self.mount.as_ref().map(MountTable::check);
        let mount = mount.and_then(|checked| checked.map_err(|found| errors.extend(found)).ok());
        let Some(csi) = &self.csi else {
            return NodeTables { mount };
        };
        errors.extend(csi.mistakes());
        if self.node.as_deref().is_none_or(str::is_empty) {
            let expected =
                "the node's name, since there is a table `csi` (flag --node, or NODE_NAME)";
            errors.push(FieldError::new("node", expected, "none"));
        }
        if csi.per_namespace.is_some() && !self.kubernetes.enabled {
            let expected = "`kubernetes.enabled = true` (flag --kubernetes): the API server knows which namespace has a name";
            errors.push(FieldError::new("csi.per_namespace", expected, "false"));
        }
        if let (Some(rule), Some(mount)) = (&csi.per_namespace, &mount)
            && rule.parent() != mount.path
        {
            let expected = format!("a directory directly in `{}`", mount.path.display());
            let found = rule.path.display();
            errors.push(FieldError::new("csi.per_namespace.path", expected, found));
        }
        NodeTables { mount }
    }

    /// Returns true if stores are made for namespaces on demand.
    pub(super) fn makes_stores(&self) -> bool {
        self.csi
            .as_ref()
            .is_some_and(|csi| csi.per_namespace.is_some())
    }

    /// Number of namespaces that may still arrive and whose guarantees are kept back, on the mount of
    /// `device`, where `own` namespaces have a store. None where no stores are made for namespaces.
    pub(crate) fn arrivals(&self, device: (u64, u64), own: usize) -> u32 {
        let rule = self.csi.as_ref().and_then(|csi| csi.per_namespace.as_ref());
        let Some(rule) = rule.filter(|rule| own < rule.limit) else {
            return 0;
        };
        let parent = stat(rule.parent()).map(|parent| parent.st_dev);
        if parent.ok() != Some(makedev(device.0, device.1)) {
            return 0;
        }
        let expected = self.policy.guaranteed_namespaces as usize;
        let kept = expected.saturating_sub(own).max(usize::from(expected > 0));
        u32::try_from(kept.min(rule.limit - own)).unwrap_or(u32::MAX)
    }

    /// The stores of namespaces that are there and not among `stores`.
    pub(crate) fn stores_of_namespaces(&self) -> FoundStores {
        let rule = self.csi.as_ref().and_then(|csi| csi.per_namespace.as_ref());
        rule.map_or_else(FoundStores::default, |rule| find_stores(rule, &self.stores))
    }

    /// The directory in which the stores of namespaces are made.
    pub(crate) fn parent_of_namespaces(&self) -> Option<&Path> {
        let rule = self.csi.as_ref()?.per_namespace.as_ref()?;
        Some(rule.parent())
    }

    /// Returns true if pods get stores as volumes.
    pub(crate) fn gives_volumes(&self) -> bool {
        self.csi.is_some()
    }
}
