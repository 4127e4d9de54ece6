//! Distribution of the engine's reports: to metrics, status and logs, and to the parts that follow
//! the set of open stores.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use tokio::sync::{Notify, watch};

use super::shortfall_log::ShortfallLog;
use super::sockets::Sockets;
use crate::cold::{ColdThread, ServedStore};
use crate::config::Config;
use crate::engine::PassResult;
use crate::engine::commands::{Command, Observer};
use crate::events::Events;
use crate::gpu_mirror::GpuMirrorThread;
use crate::http::Health;
use crate::metrics::Metrics;
use crate::report::{NodeStatus, PassReport};
use crate::scrub::{ScrubConfig, Scrubber};
use crate::store::{OpenStore, StoreConfig};

/// Adds the parts of a status that the engine does not know.
pub(super) type Amend = Box<dyn Fn(&mut NodeStatus) + Send>;

/// Distributes the engine's reports.
pub(super) struct Publisher {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    status: watch::Sender<Option<Arc<NodeStatus>>>,
    /// Signals that the holders of a status are to be counted.
    count_due: Arc<Notify>,
    events: Events,
    sockets: Option<Sockets>,
    gpu_mirror: Option<GpuMirrorThread>,
    cold: Option<ColdThread>,
    scrub: Option<(Scrubber, Vec<OpenStore>, ScrubConfig)>,
    amend: Amend,
    shortfalls: ShortfallLog,
}

impl Publisher {
    pub(super) fn new(
        commands: Sender<Command>,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
        status: watch::Sender<Option<Arc<NodeStatus>>>,
        count_due: Arc<Notify>,
        sockets: Option<Sockets>,
        amend: Amend,
    ) -> Self {
        Self {
            metrics,
            health,
            status,
            count_due,
            events: Events::new(commands),
            sockets,
            gpu_mirror: None,
            cold: None,
            scrub: None,
            amend,
            shortfalls: ShortfallLog::default(),
        }
    }

    /// With a GPU mirror of the stores that are open.
    pub(super) fn with(mut self, gpu_mirror: Option<GpuMirrorThread>) -> Self {
        self.gpu_mirror = gpu_mirror;
        self
    }

    /// With a cold tier for the stores that are open.
    pub(super) fn with_cold(mut self, cold: Option<ColdThread>) -> Self {
        self.cold = cold;
        self
    }

    fn scrub(&mut self, open: &[OpenStore], config: ScrubConfig) {
        let same = |(_, stores, with): &(Scrubber, Vec<OpenStore>, ScrubConfig)| {
            stores == open && *with == config
        };
        // A dry run changes nothing, and quarantine is a change.
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

impl Observer for Publisher {
    fn passed(&mut self, mut passed: PassResult) {
        (self.amend)(&mut passed.status);
        if let Some(gpu_mirror) = &self.gpu_mirror {
            passed.status.gpus = gpu_mirror.view().gpus();
        }
        log(&passed.report, passed.status.dry_run);
        self.shortfalls.follow(&passed.status.shortfalls);
        self.metrics.pass(&passed.report);
        let mut status = passed.status;
        self.status.send_modify(|latest| {
            if let Some(before) = latest {
                status.keep_holder_counts(before);
            }
            *latest = Some(Arc::new(status));
        });
        self.count_due.notify_one();
        self.alive();
    }

    fn alive(&mut self) {
        self.health.beat();
    }

    fn left(&mut self, store: &str) {
        if let Some(cold) = &self.cold {
            cold.forget(store);
        }
    }

    fn stores(&mut self, open: &[OpenStore], config: &Config) {
        let names = config.file.stores.iter().map(|store| store.name.clone());
        self.metrics.set_stores(names);
        self.events.watch(open);
        self.events.watch_parent(config.file.parent_of_namespaces());
        if let Some(sockets) = &mut self.sockets {
            sockets.serve(open, config);
        }
        if let (Some(gpu_mirror), Some(table)) = (&mut self.gpu_mirror, &config.file.gpu_mirror) {
            gpu_mirror.serve(open, table);
        }
        if let Some(cold) = &self.cold {
            cold.serve(served_by_cold(open, config));
        }
        self.scrub(open, config.file.scrub);
    }
}

/// The stores with their policies, for the cold tier.
fn served_by_cold(open: &[OpenStore], config: &Config) -> Vec<ServedStore> {
    let served = |open: &OpenStore| {
        let mut stores = config.file.stores.iter();
        let configured = stores.find(|store| store.name == open.name);
        let namespace = configured.and_then(StoreConfig::namespace);
        ServedStore {
            policy: config.policy.of_owned(&open.name, namespace).clone(),
            own_of_namespace: namespace.is_some(),
            open: open.clone(),
        }
    };
    open.iter().map(served).collect()
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
