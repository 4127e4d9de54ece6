//! Hands on what the engine says: to metrics, status, logs, and to what depends on which stores are open.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::watch;

use super::sockets::Sockets;
use crate::config::{Config, ScrubConfig};
use crate::engine::{Command, Observer};
use crate::events::Events;
use crate::http::Health;
use crate::metrics::Metrics;
use crate::mirror::MirrorThread;
use crate::node::{OpenStore, Passed};
use crate::report::{NodeStatus, PassReport};
use crate::scrub::Scrubber;

/// Hands on what the engine says.
pub(super) struct Teller {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    status: watch::Sender<Option<Arc<NodeStatus>>>,
    events: Events,
    sockets: Option<Sockets>,
    mirror: Option<MirrorThread>,
    scrub: Option<(Scrubber, Vec<OpenStore>, ScrubConfig)>,
}

impl Teller {
    pub(super) fn new(
        commands: Sender<Command>,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        status: watch::Sender<Option<Arc<NodeStatus>>>,
        sockets: Option<Sockets>,
    ) -> Self {
        Self {
            metrics,
            health,
            status,
            events: Events::new(commands),
            sockets,
            mirror: None,
            scrub: None,
        }
    }

    /// With a GPU mirror of the stores that are open.
    pub(super) fn with(mut self, mirror: Option<MirrorThread>) -> Self {
        self.mirror = mirror;
        self
    }

    fn scrub(&mut self, open: &[OpenStore], config: ScrubConfig) {
        let same = |(_, stores, with): &(Scrubber, Vec<OpenStore>, ScrubConfig)| {
            stores == open && *with == config
        };
        // A dry run changes nothing, and setting an object aside is a change.
        if self.sockets.is_none() || self.scrub.as_ref().is_some_and(same) {
            return;
        }
        // The old one ends before the new one begins.
        self.scrub = None;
        let metrics = Arc::clone(&self.metrics);
        let report = move |scrubbed| metrics.scrubbed(&scrubbed);
        match Scrubber::start(open.to_vec(), config, report) {
            Ok(scrubber) => self.scrub = Some((scrubber, open.to_vec(), config)),
            Err(error) => tracing::warn!(%error, "no scrub: its thread cannot be started"),
        }
    }
}

impl Observer for Teller {
    fn passed(&mut self, passed: Passed) {
        log(&passed.report, passed.status.dry_run);
        self.metrics.pass(&passed.report);
        self.status.send_replace(Some(Arc::new(passed.status)));
        self.alive();
    }

    fn alive(&mut self) {
        self.health.beat();
    }

    fn stores(&mut self, open: &[OpenStore], config: &Config) {
        let names = config.file.stores.iter().map(|store| store.name.clone());
        self.metrics.set_stores(names);
        self.events.watch(open);
        if let Some(sockets) = &mut self.sockets {
            sockets.serve(open, config);
        }
        if let (Some(mirror), Some(table)) = (&mut self.mirror, &config.file.gpu_mirror) {
            mirror.serve(open, table);
        }
        self.scrub(open, config.file.scrub);
    }
}

fn log(report: &PassReport, dry_run: bool) {
    let what = if dry_run { "would be freed" } else { "freed" };
    for pass in &report.stores {
        for (reason, amount) in &pass.freed {
            tracing::info!(
                store = pass.store,
                reason = reason.name(),
                objects = amount.objects,
                bytes = amount.bytes,
                "{what}"
            );
        }
    }
    tracing::debug!(trigger = report.trigger.name(), duration = ?report.duration, "pass");
}
