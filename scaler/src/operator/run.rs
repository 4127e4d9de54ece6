//! Loop of passes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube::Client;
use tetris_scaler_core::Settings;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::apply::Applier;
use super::history::History;
use super::loads::Loads;
use super::observed::{FunctionInput, Observed};
use super::plan::reconcile;
use super::prepare::{Preparations, Prepared, Unprepared};
use super::records::{FunctionRecord, PodRecord};
use super::watches::Watches;
use crate::lease::Leadership;
use crate::load::{LoadError, Prometheus};
use crate::metrics::Metrics;
use crate::nodes::{Daemon, Inventories, Poller};
use crate::state::{Key, Snapshot};

/// Port of the daemons' inventories.
const DAEMON_PORT: u16 = 9466;
/// Minimum time between two passes.
const LEAST: Duration = Duration::from_secs(1);
/// Interval of checks for complete lists.
const SYNC: Duration = Duration::from_millis(100);
/// Maximum wait of the first pass for the first answers of daemons and of Prometheus.
const FIRST_ANSWERS: Duration = Duration::from_secs(15);
/// Minimum length of a window in intervals: two measurements a window apart say nothing about the
/// load in between.
const LEAST_WINDOW: u32 = 3;

/// Timing and settings of passes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interval of load queries, and maximum interval of passes.
    pub interval: Duration,
    /// Interval of polls of the daemons.
    pub poll: Duration,
    /// Namespace of the daemons.
    pub daemons: String,
    /// Steady time after which instances may be replaced; `None` for never.
    pub consolidate_after: Option<Duration>,
    /// Settings of plans.
    pub settings: Settings,
}

/// Parts of the operator.
pub struct Operator {
    /// Timing and settings.
    pub options: Options,
    /// Client of the API server.
    pub client: Client,
    /// Leadership of this replica.
    pub leadership: Leadership,
    /// Metrics of the scaler.
    pub metrics: Arc<Metrics>,
    /// Channel for snapshots of decisions.
    pub published: watch::Sender<Arc<Snapshot>>,
    /// Set after the first pass.
    pub ready: Arc<AtomicBool>,
    /// Source of loads.
    pub prometheus: Option<Prometheus>,
}

/// State shared by the tasks.
struct Shared {
    watches: Watches,
    loads: Loads,
    inventories: Arc<Mutex<Inventories>>,
    changed: Notify,
    /// Notified when a function has no load query yet.
    unasked: Notify,
    /// True once loads have been queried.
    measured: AtomicBool,
    /// True once daemons have been polled.
    polled: AtomicBool,
    started: Instant,
}

impl Shared {
    fn new(options: &Options, poller: &Poller) -> Self {
        Self {
            watches: Watches::default(),
            loads: Loads::new(options.interval.saturating_mul(LEAST_WINDOW)),
            inventories: poller.latest(),
            changed: Notify::new(),
            unasked: Notify::new(),
            measured: AtomicBool::new(false),
            polled: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    /// Returns true once the inputs of a pass are complete, or after a timeout. An earlier pass
    /// would report wrong states, and place instances away from their tensors.
    fn may_begin(&self) -> bool {
        let asked = |what: &AtomicBool| what.load(Ordering::Relaxed);
        (asked(&self.measured) && asked(&self.polled)) || self.started.elapsed() >= FIRST_ANSWERS
    }

    /// Returns monotonic milliseconds.
    fn clock(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Operator {
    /// Runs until `stop` completes, and finishes the current pass.
    pub async fn run(self, mut poller: Poller, stop: impl Future<Output = ()>) {
        let shared = Shared::new(&self.options, &poller);
        let stopping = AtomicBool::new(false);
        let until = async {
            stop.await;
            stopping.store(true, Ordering::Relaxed);
            shared.changed.notify_one();
        };
        let background = async {
            tokio::join!(
                shared
                    .watches
                    .run(&self.client, &shared.changed, &self.metrics),
                self.poll(&shared, &mut poller),
                self.measure(&shared),
            );
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(self.passes(&shared, &stopping), until) } => {}
            () = background => tracing::error!("a watch has ended"),
        }
    }

    async fn poll(&self, shared: &Shared, poller: &mut Poller) {
        loop {
            let Some(pods) = shared.watches.pods.all() else {
                sleep(SYNC).await;
                continue;
            };
            let (changed, errors) = poller.round(&self.daemons(&pods)).await;
            for error in errors {
                self.metrics.failed(error.class());
                tracing::debug!("{error}");
            }
            if !shared.polled.swap(true, Ordering::Relaxed) || changed {
                shared.changed.notify_one();
            }
            sleep(jittered(self.options.poll)).await;
        }
    }

    /// Returns one daemon per node, even if two exist during an update.
    fn daemons(&self, pods: &BTreeMap<Key, Arc<PodRecord>>) -> Vec<Daemon> {
        let of = |pod: &Arc<PodRecord>| {
            let address = pod
                .daemon
                .filter(|_| pod.key.namespace == self.options.daemons)?;
            let daemon = Daemon {
                node: pod.node.clone(),
                address: SocketAddr::new(address, DAEMON_PORT),
            };
            Some((daemon.node.clone(), daemon))
        };
        let daemons: BTreeMap<String, Daemon> = pods.values().filter_map(of).collect();
        daemons.into_values().collect()
    }

    async fn measure(&self, shared: &Shared) {
        loop {
            let Some(functions) = shared.watches.functions.all() else {
                sleep(SYNC).await;
                continue;
            };
            let prometheus = self.prometheus.as_ref();
            let clock = || shared.clock();
            (shared.loads)
                .round(&functions, prometheus, &self.metrics, clock)
                .await;
            shared.measured.store(true, Ordering::Relaxed);
            shared.changed.notify_one();
            let wait = jittered(self.options.interval);
            drop(timeout(wait, shared.unasked.notified()).await);
        }
    }

    async fn passes(&self, shared: &Shared, stopping: &AtomicBool) {
        let after = self.options.consolidate_after;
        let after = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        let mut history = History::new(after);
        let mut preparations = Preparations::default();
        let leadership = self.leadership.clone();
        let mut applier = Applier::new(self.client.clone(), leadership, Arc::clone(&self.metrics));
        while !stopping.load(Ordering::Relaxed) {
            if let Some(observed) = self.observe(shared, &history, &mut preparations) {
                self.pass(shared, &observed, &mut history, &mut applier)
                    .await;
            }
            if !stopping.load(Ordering::Relaxed) {
                sleep(LEAST).await;
            }
            // A pass follows even without a change, as decisions depend on time.
            drop(timeout(self.options.interval, shared.changed.notified()).await);
        }
    }

    async fn pass(
        &self,
        shared: &Shared,
        observed: &Observed,
        history: &mut History,
        applier: &mut Applier,
    ) {
        let began = Instant::now();
        let plan = reconcile(observed, &self.options.settings, epoch_ms());
        self.metrics.planned(began.elapsed().as_secs_f64());
        let leads = self.leadership.leads();
        let nodes = observed.inventory.nodes().count();
        self.metrics.state(leads, nodes);
        history.planned(&plan.functions, shared.clock());
        self.published.send_replace(Arc::new(plan.snapshot.clone()));
        self.ready.store(true, Ordering::Relaxed);
        if leads {
            applier.carry_out(&plan).await;
        }
    }

    /// Returns the current observations, or `None` before all lists are complete.
    fn observe(
        &self,
        shared: &Shared,
        history: &History,
        preparations: &mut Preparations,
    ) -> Option<Observed> {
        if !shared.may_begin() {
            return None;
        }
        let watches = &shared.watches;
        let functions = watches.functions.all()?;
        let profiles = watches.profiles.all()?;
        preparations.keep(&functions);
        let inputs = functions.values().map(|record| {
            let prepared = preparations.get(record, &profiles);
            self.input(shared, history, record, prepared)
        });
        let functions: Vec<FunctionInput> = inputs.collect();
        let inventories = shared.inventories.lock();
        let inventories = inventories.unwrap_or_else(PoisonError::into_inner).clone();
        Some(Observed {
            functions,
            deployments: watches.deployments.all()?,
            pods: watches.pods.all()?,
            nodes: watches.nodes.all()?,
            inventory: inventories.inventory,
            rooms: inventories.rooms,
        })
    }

    /// Returns a function with its current observations.
    fn input(
        &self,
        shared: &Shared,
        history: &History,
        record: &Arc<FunctionRecord>,
        prepared: Result<Arc<Prepared>, Unprepared>,
    ) -> FunctionInput {
        let now = shared.clock();
        let stale = self.options.interval.saturating_mul(4) + Duration::from_secs(10);
        let stale = u64::try_from(stale.as_millis()).unwrap_or(u64::MAX);
        let reading = shared.loads.of(record, now, stale);
        if record.function.is_ok() && reading.load == Err(LoadError::NotAsked) {
            shared.unasked.notify_one();
        }
        FunctionInput {
            prepared,
            load: reading.load,
            pod_loads: reading.pods,
            peak: reading.peak,
            consolidate: history.may_consolidate(&record.key, now),
            give_up_retiring: history.gives_up(&record.key, now),
            refresh_status: history.may_report(&record.key, now),
            record: Arc::clone(record),
        }
    }
}

/// Returns up to a fifth less, so that replicas do not act in step.
fn jittered(span: Duration) -> Duration {
    span.mul_f64(rand::random_range(0.8..1.0))
}

fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
