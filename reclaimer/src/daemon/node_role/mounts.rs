//! The tmpfs of the stores, if the daemon mounts it.

use anyhow::{Context, Result};

use crate::config::Config;
use crate::metrics::Metrics;
use crate::mount::{MountError, ensure_mount, is_tmpfs_mount};
use crate::report::ErrorClass;

/// Mounts the tmpfs or adopts the one that is there, and makes the stores that are configured on
/// it. One that cannot be made as configured is used as it is: pods go on as before, and the log
/// and the metrics report the error.
///
/// # Errors
/// When there is none afterwards.
pub(super) fn prepare(config: &Config, metrics: &Metrics) -> Result<()> {
    let Some(mount) = &config.tables.mount else {
        return Ok(());
    };
    match ensure_mount(mount) {
        Ok(ensured) => {
            ensured.log();
            if let Err(error) = ensured.create_stores(&config.file.stores) {
                complain(&error, metrics);
            }
            Ok(())
        }
        Err(error) if is_tmpfs_mount(&mount.path).unwrap_or(false) => {
            complain(&error, metrics);
            Ok(())
        }
        Err(error) => Err(error).context("there is nothing to keep stores on"),
    }
}

/// The same in a running daemon, which goes on after errors.
pub(super) fn prepare_again(config: &Config, metrics: &Metrics) {
    if let Err(error) = prepare(config, metrics) {
        tracing::error!("{}", tetris_service_kit::command::with_causes(&error));
        metrics.error(ErrorClass::Mount, None);
    }
}

fn complain(error: &MountError, metrics: &Metrics) {
    tracing::error!(%error, "the present tmpfs stays in use");
    metrics.error(ErrorClass::Mount, None);
}
