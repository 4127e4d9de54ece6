//! Checks of the tables of a cluster's node: the tmpfs mount and the volumes for pods.

use super::{ConfigError, ConfigFile};
use crate::mount::{MountConfig, MountTable};

impl ConfigFile {
    /// Checks both tables. Returns the tmpfs to mount, if the daemon mounts one.
    pub(super) fn check_node(&self) -> Result<Option<MountConfig>, ConfigError> {
        let mount = self.mount.as_ref().map(MountTable::check).transpose()?;
        let Some(csi) = &self.csi else {
            return Ok(mount);
        };
        csi.check()?;
        if self.node.as_deref().is_none_or(str::is_empty) {
            let expected =
                "the node's name, since there is a table `csi` (flag --node, or NODE_NAME)";
            return Err(ConfigError::value("node", expected, "none"));
        }
        if csi.per_namespace.is_some() && !self.kubernetes.enabled {
            let expected = "`kubernetes.enabled = true` (flag --kubernetes): the API server knows which namespace has a name";
            return Err(ConfigError::value("csi.per_namespace", expected, "false"));
        }
        if let (Some(rule), Some(mount)) = (&csi.per_namespace, &mount)
            && rule.parent() != mount.path
        {
            let expected = format!("a directory directly in `{}`", mount.path.display());
            let found = rule.path.display();
            return Err(ConfigError::value(
                "csi.per_namespace.path",
                expected,
                found,
            ));
        }
        Ok(mount)
    }
}

impl ConfigFile {
    /// Returns true if stores are made for namespaces on demand.
    pub(super) fn makes_stores(&self) -> bool {
        self.csi
            .as_ref()
            .is_some_and(|csi| csi.per_namespace.is_some())
    }
}
