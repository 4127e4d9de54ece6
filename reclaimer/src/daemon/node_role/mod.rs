//! The daemon's role on a node of a cluster: owner of the tmpfs, and driver of pods' volumes.

mod cluster;
mod mounts;
#[cfg_attr(not(feature = "kubernetes"), path = "no_namespace_watch.rs")]
mod namespace_watch;
mod volumes;

use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use volumes::WantedVolumes;

use super::DriverReports;
use crate::config::Config;
use crate::http::DriverState;
use crate::metrics::Metrics;
use crate::reclaimer::engine::Command;

/// The node's role while the daemon runs.
pub(super) struct NodeRole {
    metrics: Arc<Metrics>,
    /// Configuration at the start, with the mount point of the tmpfs if the daemon owns it.
    config: Config,
    /// None in a dry run, which changes nothing.
    volumes: Option<(watch::Sender<WantedVolumes>, JoinHandle<()>)>,
}

impl NodeRole {
    /// Mounts the tmpfs of the stores, if the daemon owns it. A dry run changes nothing.
    ///
    /// # Errors
    /// When there is no tmpfs afterwards.
    pub(super) fn prepare(config: &Config, dry_run: bool, metrics: &Metrics) -> Result<()> {
        if dry_run {
            return Ok(());
        }
        mounts::prepare(config, metrics)
    }

    /// State of the driver before it runs.
    pub(super) fn driver_at_start(config: &Config, dry_run: bool) -> DriverState {
        if config.file.csi.is_some() && !dry_run {
            DriverState::Waiting
        } else {
            DriverState::Absent
        }
    }

    /// Serves pods their volumes, until `stopped`. The tmpfs is there.
    pub(super) fn start(
        config: &Config,
        dry_run: bool,
        commands: &Sender<Command>,
        metrics: &Arc<Metrics>,
        reports: DriverReports,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let volumes = (!dry_run).then(|| {
            let (wanted, follows) = watch::channel(WantedVolumes::of(&config.file));
            let metrics = Arc::clone(metrics);
            let served = volumes::serve(follows, commands.clone(), metrics, reports, stopped);
            (wanted, served)
        });
        Self {
            metrics: Arc::clone(metrics),
            config: config.clone(),
            volumes,
        }
    }

    /// Takes another configuration into force: the tmpfs is changed in place, and the driver is
    /// started again if it differs.
    pub(super) fn reload(&self, config: &Config) {
        let Some((wanted, _)) = &self.volumes else {
            return;
        };
        if !moved(&self.config, config) {
            // Another daemon that starts can hold the lock of the mount for a while.
            tokio::task::block_in_place(|| mounts::prepare_again(config, &self.metrics));
        }
        let new = WantedVolumes::of(&config.file);
        wanted.send_if_modified(|old| {
            let differs = *old != new;
            *old = new;
            differs
        });
    }

    /// Waits for the driver's end, after the signal to stop.
    pub(super) async fn end(self) -> Result<()> {
        match self.volumes {
            Some((_, served)) => served.await.context("the CSI services failed"),
            None => Ok(()),
        }
    }
}

/// Returns true if the tmpfs of `new` lies elsewhere than that of `old`. Stores that pods have
/// mounted cannot move.
pub(super) fn moved(old: &Config, new: &Config) -> bool {
    let path = |config: &Config| config.tables.mount.as_ref().map(|mount| mount.path.clone());
    path(old) != path(new)
}
