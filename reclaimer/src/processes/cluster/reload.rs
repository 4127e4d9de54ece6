//! The configuration read again: all that this process takes from it stays until a restart.

use crate::config::{Config, ConfigFlags};

/// Reads the configuration again, and logs changes that need a restart.
pub(crate) fn compare(flags: &ConfigFlags, old: &Config) {
    let new = match flags.load() {
        Ok(new) => new,
        Err(error) => {
            for error in error.to_string().lines() {
                tracing::error!(
                    error,
                    "the new configuration is wrong; the one in force stays"
                );
            }
            return;
        }
    };
    let (old, new) = (&old.file, &new.file);
    let unchanged = [
        ("listen", new.listen == old.listen),
        ("network", new.network == old.network),
        ("node", new.node == old.node),
        ("kubernetes", new.kubernetes == old.kubernetes),
        ("processes", new.processes == old.processes),
        ("csi", new.csi.is_some() == old.csi.is_some()),
        (
            "gpu_mirror",
            new.gpu_mirror.is_some() == old.gpu_mirror.is_some(),
        ),
    ];
    for (field, _) in unchanged.iter().filter(|(_, same)| !same) {
        tracing::warn!(
            field,
            "a change of this field takes force when `tetris-node cluster` is restarted"
        );
    }
    tracing::info!("configuration read again");
}
