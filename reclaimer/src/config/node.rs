//! What the daemon needs to know to mount the stores and to give them to pods.

use super::{ConfigError, ConfigFile};
use crate::mount::{MountConfig, MountTable};

impl ConfigFile {
    /// What the tmpfs is to be, if it is the daemon's.
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
    /// Whether stores are made for namespaces as they come.
    pub(super) fn makes_stores(&self) -> bool {
        self.csi
            .as_ref()
            .is_some_and(|csi| csi.per_namespace.is_some())
    }
}
