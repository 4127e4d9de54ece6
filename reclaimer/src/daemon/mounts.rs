//! The tmpfs of the stores, where the daemon of one process mounts it.

use anyhow::{Context, Result};

use crate::config::{Config, ConfigError, ConfigMistake};
use crate::field_error::FieldError;
use crate::metrics::Metrics;
use crate::mount;
use crate::report::ErrorClass;

/// Refuses a configuration by which pods get volumes: that is work of several processes.
///
/// # Errors
/// [`ConfigError::Wrong`] if there is a table `csi`.
pub(super) fn refuse_volumes(config: &Config) -> Result<(), ConfigError> {
    if !config.file.gives_volumes() {
        return Ok(());
    }
    let expected = "no such table for `tetris-node run`: pods get volumes from a daemon of several processes, `tetris-node volumes`, `broker`, `cluster` and, with a table `gpu_mirror`, `mirror`";
    let mistake = ConfigMistake::of_field(&FieldError::new("csi", expected, "one"));
    Err(ConfigError::Wrong(vec![mistake]))
}

/// Mounts the tmpfs or adopts the one that is there, and makes the stores configured on
/// it. One that cannot be made as configured is used as it is: pods go on as before, and the log
/// and the metrics report the error.
///
/// # Errors
/// When there is none afterwards.
pub(super) fn prepare(config: &Config, metrics: &Metrics) -> Result<()> {
    let Some(table) = &config.tables.mount else {
        return Ok(());
    };
    let complain = || metrics.error(ErrorClass::Mount, None);
    let prepared = mount::prepare(table, &config.file.stores, complain);
    prepared.context("there is nothing to keep stores on")
}

/// The same in a running daemon, which goes on after errors. A tmpfs cannot move.
pub(super) fn prepare_again(config: &Config, old: &Config, metrics: &Metrics) {
    if moved(old, config) {
        return;
    }
    // Another daemon that starts can hold the lock of the mount for a while.
    if let Err(error) = tokio::task::block_in_place(|| prepare(config, metrics)) {
        tracing::error!("{}", tetris_service_kit::command::with_causes(&error));
        metrics.error(ErrorClass::Mount, None);
    }
}

/// Returns true if the tmpfs of `new` lies elsewhere than that of `old`. Stores that pods have
/// mounted cannot move.
pub(super) fn moved(old: &Config, new: &Config) -> bool {
    let path = |config: &Config| config.tables.mount.as_ref().map(|mount| mount.path.clone());
    path(old) != path(new)
}
