//! The node's role in a build without the feature `node`: no mount, no volumes.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::Result;
use tokio::sync::watch;

use super::DriverReports;
use crate::config::Config;
use crate::http::DriverState;
use crate::metrics::Metrics;
use crate::reclaimer::engine::Command;

/// No role.
pub(super) struct NodeRole;

impl NodeRole {
    /// State of the driver: there is none.
    pub(super) fn driver_at_start(_: &Config, _: bool) -> DriverState {
        DriverState::Absent
    }

    /// Mounts nothing.
    #[expect(clippy::unnecessary_wraps, reason = "the other role can fail")]
    pub(super) fn prepare(_: &Config, _: bool, _: &Metrics) -> Result<()> {
        Ok(())
    }

    /// Serves nothing.
    pub(super) fn start(
        _: &Config,
        _: bool,
        _: &Sender<Command>,
        _: &Arc<Metrics>,
        _: DriverReports,
        _: watch::Receiver<bool>,
    ) -> Self {
        Self
    }

    /// Nothing depends on the configuration.
    #[expect(clippy::unused_self, reason = "the other role has state")]
    pub(super) fn reload(&self, _: &Config) {}

    /// Nothing has to end.
    #[expect(clippy::unused_async, reason = "the other role waits")]
    pub(super) async fn end(self) -> Result<()> {
        Ok(())
    }
}

/// Returns false: there is no tmpfs to move.
pub(super) fn moved(_: &Config, _: &Config) -> bool {
    false
}
