//! The tmpfs in a build without the feature `node`: it is mounted by others.

use anyhow::Result;

use crate::config::{Config, ConfigError};
use crate::metrics::Metrics;

/// Refuses nothing: there is no such table.
#[expect(clippy::unnecessary_wraps, reason = "the other one can fail")]
pub(super) fn refuse_volumes(_: &Config) -> Result<(), ConfigError> {
    Ok(())
}

/// Mounts nothing.
#[expect(clippy::unnecessary_wraps, reason = "the other one can fail")]
pub(super) fn prepare(_: &Config, _: &Metrics) -> Result<()> {
    Ok(())
}

/// Mounts nothing.
pub(super) fn prepare_again(_: &Config, _: &Config, _: &Metrics) {}

/// Returns false: there is no tmpfs to move.
pub(super) fn moved(_: &Config, _: &Config) -> bool {
    false
}
