//! Metrics for Prometheus: counters that passes add to, and gauges from the latest [`NodeStatus`]
//! at each scrape.
//!
//! Labels name configured stores and values known in advance, never objects or models, so
//! the number of series is bounded. Counters start at 0 with the daemon. Gauges appear with the
//! first pass.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use prometheus_client::registry::Registry;
use tetris_service_kit::metrics::{encode, register_build_info};

use crate::gpu_mirror::GpuMirrorStatus;
use crate::report::{ErrorClass, NodeStatus, PassReport, Scrubbed, StorePass};

use self::cold::ColdGauges;
use self::counters::Counters;
use self::ingest::Ingests;
pub use self::processes::ProcessSample;

mod cold;
mod counters;
mod families;
mod gpu;
mod ingest;
mod node;
mod process;
mod processes;
mod shortfall;

/// Names of all metrics that are the daemon's own begin so.
const PREFIX: &str = "tetris";

/// Names and values of a series' labels.
type Labels = Vec<(&'static str, String)>;

/// Outcome of a load's request for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomOutcome {
    /// All of it was made.
    Served,
    /// Some of it was made.
    Partly,
    /// None was made, or the asker may not ask.
    Refused,
}

impl RoomOutcome {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Served, Self::Partly, Self::Refused];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Partly => "partly",
            Self::Refused => "refused",
        }
    }
}

/// The daemon's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    counters: Counters,
    ingests: Ingests,
    cold: ColdGauges,
    stores: RwLock<BTreeSet<String>>,
    gpu_mirror: OnceLock<GpuMirrorSource>,
    processes: OnceLock<ProcessSource>,
}

/// Reports how the GPU mirror is.
struct GpuMirrorSource(Box<dyn Fn() -> GpuMirrorStatus + Send + Sync>);

impl std::fmt::Debug for GpuMirrorSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("GpuMirrorSource")
    }
}

/// Reports how the daemon's processes are.
struct ProcessSource(Box<dyn Fn() -> Vec<ProcessSample> + Send + Sync>);

impl std::fmt::Debug for ProcessSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProcessSource")
    }
}

impl Metrics {
    /// Metrics of a daemon with these stores, by their names in the configuration.
    pub fn new(stores: impl IntoIterator<Item = String>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(process::Process::new()));
        let prefixed = registry.sub_registry_with_prefix(PREFIX);
        register_build_info(
            prefixed,
            "The daemon's version; always 1",
            env!("CARGO_PKG_VERSION"),
        );
        let metrics = Self {
            counters: Counters::register(prefixed),
            ingests: Ingests::register(prefixed),
            cold: ColdGauges::register(prefixed),
            registry,
            stores: RwLock::default(),
            gpu_mirror: OnceLock::new(),
            processes: OnceLock::new(),
        };
        metrics.set_stores(stores);
        metrics
    }

    /// The configuration changed: series of stores that are no longer in it go.
    pub fn set_stores(&self, stores: impl IntoIterator<Item = String>) {
        let stores: BTreeSet<String> = stores.into_iter().collect();
        let mut known = self.stores.write().unwrap_or_else(PoisonError::into_inner);
        for store in known.difference(&stores) {
            self.counters.forget(store);
            self.ingests.forget(store);
            self.cold.forget(store);
        }
        for store in &stores {
            self.counters.start(store);
            self.ingests.start(store);
            self.cold.start(store);
        }
        *known = stores;
    }

    /// Shows a GPU mirror from now on: `status` is called at each scrape. Without this there is no
    /// series of it.
    pub fn show_gpu_mirror(&self, status: impl Fn() -> GpuMirrorStatus + Send + Sync + 'static) {
        let first = self.gpu_mirror.set(GpuMirrorSource(Box::new(status)));
        debug_assert!(first.is_ok(), "a daemon has one mirror");
    }

    /// Shows the daemon's processes from now on: `samples` is called at each scrape. Without this
    /// there are no series of them.
    pub fn show_processes(&self, samples: impl Fn() -> Vec<ProcessSample> + Send + Sync + 'static) {
        let first = self.processes.set(ProcessSource(Box::new(samples)));
        debug_assert!(first.is_ok(), "a daemon has one list of processes");
    }

    /// Counts a pass.
    pub fn pass(&self, report: &PassReport) {
        self.counters
            .pass(report.trigger, report.duration.as_secs_f64());
        for store in &report.stores {
            self.with_store(Some(&store.store), |name| self.store_pass(name, store));
        }
        for (class, store) in &report.errors {
            self.error(*class, store.as_deref());
        }
    }

    fn store_pass(&self, name: &str, pass: &StorePass) {
        let counters = &self.counters;
        for (reason, freed) in &pass.freed {
            let reason = reason.name();
            counters.reclaimed_objects.add(name, reason, freed.objects);
            counters.reclaimed_bytes.add(name, reason, freed.bytes);
        }
        counters.kept_by_lock.add(name, "", pass.kept_by_lock);
        counters.records_removed.add(name, "", pass.records_removed);
        counters.hits.add(name, "", pass.loads.hits);
        counters.hit_bytes.add(name, "", pass.loads.hit_bytes);
        counters.misses.add(name, "", pass.loads.misses);
        counters.missed_bytes.add(name, "", pass.loads.missed_bytes);
    }

    /// Counts the check of an object.
    pub fn scrubbed(&self, scrubbed: &Scrubbed) {
        let result = scrubbed.result.name();
        self.with_store(Some(&scrubbed.store), |store| {
            self.counters.scrubbed_objects.add(store, result, 1);
            self.counters
                .scrubbed_bytes
                .add(store, result, scrubbed.bytes);
        });
    }

    /// Counts an error that no [`PassReport`] holds; `store` is the one that it concerns.
    pub fn error(&self, class: ErrorClass, store: Option<&str>) {
        self.with_store(store, |store| {
            self.counters.errors.add(store, class.name(), 1);
        });
    }

    /// Counts errors of another process of the daemon, which concern no store.
    pub fn errors_elsewhere(&self, class: ErrorClass, errors: u64) {
        self.with_store(None, |store| {
            self.counters.errors.add(store, class.name(), errors);
        });
    }

    /// Counts a load that asked for `bytes` of room.
    pub fn request(&self, store: &str, outcome: RoomOutcome, bytes: u64) {
        let outcome = outcome.name();
        self.with_store(Some(store), |store| {
            self.counters.room_requests.add(store, outcome, 1);
            self.counters.room_bytes.add(store, outcome, bytes);
        });
    }

    /// Counts under the store's name, or under an empty one where it is not configured: a name that
    /// someone else chose makes no series. The lock is held meanwhile, so that no series comes
    /// back after its store is gone.
    fn with_store(&self, store: Option<&str>, count: impl FnOnce(&str)) {
        let known = self.stores.read().unwrap_or_else(PoisonError::into_inner);
        count(
            store
                .filter(|name| known.contains(*name))
                .unwrap_or_default(),
        );
    }

    /// All metrics as OpenMetrics text, of
    /// [`CONTENT_TYPE`](tetris_service_kit::metrics::CONTENT_TYPE). Gauges come from `status`, and
    /// are left out without one.
    pub fn encode(&self, status: Option<Arc<NodeStatus>>) -> Result<String, std::fmt::Error> {
        let node = status.map(|status| {
            let mut gauges = Registry::with_prefix(PREFIX);
            gauges.register_collector(Box::new(node::NodeMetrics(status)));
            gauges
        });
        let gpu_mirror = self.gpu_mirror.get().map(|GpuMirrorSource(status)| {
            let mut gpu_mirror = Registry::with_prefix(PREFIX);
            gpu_mirror.register_collector(Box::new(gpu::GpuMirrorMetrics(status())));
            gpu_mirror
        });
        let processes = self.processes.get().map(|ProcessSource(samples)| {
            let mut processes = Registry::with_prefix(PREFIX);
            processes.register_collector(Box::new(processes::ProcessMetrics(samples())));
            processes
        });
        let all = [&self.registry].into_iter();
        encode(all.chain(&node).chain(&gpu_mirror).chain(&processes))
    }
}
