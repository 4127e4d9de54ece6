//! The configuration, read again while the daemon runs.

use super::mounts;
use crate::config::{Config, ConfigFlags};
use crate::gpu_mirror::needs_restart;

/// Reads the configuration again; `None` if it is wrong.
pub(super) fn reload(flags: &ConfigFlags, old: &Config) -> Option<Config> {
    let config = match flags.load() {
        Ok(config) => config,
        Err(error) => {
            for error in error.to_string().lines() {
                tracing::error!(
                    error,
                    "the new configuration is wrong; the one in force stays"
                );
            }
            return None;
        }
    };
    let unchanged = [
        ("listen", config.file.listen == old.file.listen),
        ("network", config.file.network == old.file.network),
        ("node", config.file.node == old.file.node),
        ("kubernetes", config.file.kubernetes == old.file.kubernetes),
        ("cold", config.file.cold == old.file.cold),
        ("processes", config.file.processes == old.file.processes),
        ("mount.path", !mounts::moved(old, &config)),
    ];
    for (field, _) in unchanged.iter().filter(|(_, same)| !same) {
        tracing::warn!(
            field,
            "a change of this field takes force when the daemon is restarted"
        );
    }
    let (before, after) = (&old.file.gpu_mirror, &config.file.gpu_mirror);
    if let Some(fields) = needs_restart(before.as_ref(), after.as_ref()) {
        tracing::warn!(
            fields,
            "changes of these fields take force when the daemon is restarted"
        );
    }
    tracing::info!("configuration read again");
    Some(config)
}
