//! Passes, one after the other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kube::Client;
use tetris_scaler_core::Settings;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::act::Actor;
use super::loads::Loads;
use super::memory::Memory;
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

/// The port of daemons.
const DAEMON_PORT: u16 = 9460;
/// Between two passes lies at least so much.
const LEAST: Duration = Duration::from_secs(1);
/// How often it is looked whether lists are complete.
const SYNC: Duration = Duration::from_millis(100);
/// The first pass waits so long for the first answers of daemons and of Prometheus.
const FIRST_ANSWERS: Duration = Duration::from_secs(15);
/// A window is at least so many intervals: measurements that are a window apart say nothing of the load between them.
const LEAST_WINDOW: u32 = 3;

/// How passes are made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Loads are asked for, and passes made, so often.
    pub interval: Duration,
    /// Daemons are asked so often.
    pub poll: Duration,
    /// The namespace of the daemons.
    pub daemons: String,
    /// Instances of functions that were steady for so long may be replaced; never without it.
    pub consolidate_after: Option<Duration>,
    /// How plans are made.
    pub settings: Settings,
}

/// What the operator is made of.
pub struct Operator {
    /// How passes are made.
    pub options: Options,
    /// The API server.
    pub client: Client,
    /// Whether this replica acts.
    pub leadership: Leadership,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// Where decisions are published.
    pub published: watch::Sender<Arc<Snapshot>>,
    /// Set once the first pass is made.
    pub ready: Arc<AtomicBool>,
    /// Where loads are asked for.
    pub prometheus: Option<Prometheus>,
}

/// What tasks share.
struct Shared {
    watches: Watches,
    loads: Loads,
    inventories: Arc<Mutex<Inventories>>,
    changed: Notify,
    /// A function was seen whose load has not been asked for.
    unasked: Notify,
    /// Whether loads have been asked for.
    measured: AtomicBool,
    /// Whether daemons have been asked.
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

    /// Whether what passes go by has been asked for, or for too long. A pass without it would report what is not so,
    /// and put instances where their tensors are not.
    fn may_begin(&self) -> bool {
        let asked = |what: &AtomicBool| what.load(Ordering::Relaxed);
        (asked(&self.measured) && asked(&self.polled)) || self.started.elapsed() >= FIRST_ANSWERS
    }

    /// Milliseconds that never go back.
    fn clock(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Operator {
    /// Runs until `stop` is done; a pass that has begun is finished.
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

    /// One of each node, should two be there while they change.
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
        let mut memory = Memory::new(after);
        let mut preparations = Preparations::default();
        let leadership = self.leadership.clone();
        let mut actor = Actor::new(self.client.clone(), leadership, Arc::clone(&self.metrics));
        while !stopping.load(Ordering::Relaxed) {
            if let Some(observed) = self.observe(shared, &memory, &mut preparations) {
                self.pass(shared, &observed, &mut memory, &mut actor).await;
            }
            if !stopping.load(Ordering::Relaxed) {
                sleep(LEAST).await;
            }
            // Without a change a pass is made all the same: time makes a difference.
            drop(timeout(self.options.interval, shared.changed.notified()).await);
        }
    }

    async fn pass(
        &self,
        shared: &Shared,
        observed: &Observed,
        memory: &mut Memory,
        actor: &mut Actor,
    ) {
        let began = Instant::now();
        let plan = reconcile(observed, &self.options.settings, epoch_ms());
        self.metrics.planned(began.elapsed().as_secs_f64());
        let leads = self.leadership.leads();
        let nodes = observed.inventory.nodes().count();
        self.metrics.state(leads, nodes);
        memory.planned(&plan.functions, shared.clock());
        self.published.send_replace(Arc::new(plan.snapshot.clone()));
        self.ready.store(true, Ordering::Relaxed);
        if leads {
            actor.carry_out(&plan).await;
        }
    }

    /// What is seen now; nothing before all lists are complete.
    fn observe(
        &self,
        shared: &Shared,
        memory: &Memory,
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
            self.input(shared, memory, record, prepared)
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

    /// A function, and what is known of it now.
    fn input(
        &self,
        shared: &Shared,
        memory: &Memory,
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
            consolidate: memory.may_consolidate(&record.key, now),
            give_up_retiring: memory.gives_up(&record.key, now),
            refresh_status: memory.may_report(&record.key, now),
            record: Arc::clone(record),
        }
    }
}

/// Up to a fifth less, so that many do not ask at once.
fn jittered(span: Duration) -> Duration {
    span.mul_f64(rand::random_range(0.8..1.0))
}

fn epoch_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
