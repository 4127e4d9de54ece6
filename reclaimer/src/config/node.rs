//! What the daemon needs to know to mount the stores and to give them to pods.

use super::{ConfigError, ConfigFile};

impl ConfigFile {
    pub(super) fn check_node(&self) -> Result<(), ConfigError> {
        if let Some(mount) = &self.mount {
            mount.check()?;
        }
        let Some(csi) = &self.csi else {
            return Ok(());
        };
        csi.check()?;
        if self.node.as_deref().is_none_or(str::is_empty) {
            let expected =
                "the node's name, since there is a table `csi` (flag --node, or NODE_NAME)";
            return Err(ConfigError::value("node", expected, "none"));
        }
        let (Some(rule), Some(mount)) = (&csi.per_namespace, &self.mount) else {
            return Ok(());
        };
        if rule.parent() != mount.path {
            let expected = format!("a directory directly in `{}`", mount.path.display());
            let found = rule.path.display();
            return Err(ConfigError::value(
                "csi.per_namespace.path",
                expected,
                found,
            ));
        }
        Ok(())
    }
}
