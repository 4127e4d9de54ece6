//! Loop of passes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::{Instant, sleep, timeout};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::apply::Applier;
use super::gateway_loads;
use super::history::History;
use super::models;
use super::observed::Observed;
use super::parts::LEAST;
pub use super::parts::{Operator, Options};
use super::placing::{Memory, Placer, steps};
use super::plan::reconcile;
use super::profiling;
use super::records::PodRecord;
use super::shared::{Shared, unmeasured};
use crate::nodes::{Daemon, Poller};
use crate::state::Key;

/// Port of the daemons' inventories.
const DAEMON_PORT: u16 = 9466;
/// Interval of checks for complete lists.
const SYNC: Duration = Duration::from_millis(100);
/// Interval between two looks at waiting pods.
const PLACING: Duration = Duration::from_millis(200);

impl Operator {
    /// Runs until `stop` completes, and finishes the current pass.
    pub async fn run(self, mut poller: Poller, stop: impl Future<Output = ()>) {
        let options = &self.options;
        let (interval, failing_after) = (options.interval, options.failing_after);
        let shared = Shared::new(interval, failing_after, options.placement, &poller);
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
                gateway_loads::follow(&self, &shared),
                self.place(&shared),
                Box::pin(models::follow(&self, shared.around_models())),
                Box::pin(profiling::follow(&self, shared.around_measurements())),
            );
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(self.passes(&shared, &stopping), until) } => {}
            () = background => tracing::error!("a watch has ended"),
        }
    }

    async fn poll(&self, shared: &Shared, poller: &mut Poller) {
        // An error is news once for each node, and not again with every look.
        let mut told = BTreeSet::new();
        loop {
            let Some(pods) = shared.watches.pods.all() else {
                sleep(SYNC).await;
                continue;
            };
            let (changed, errors) = poller.round(&self.daemons(&pods)).await;
            let mut now = BTreeSet::new();
            for error in errors {
                self.metrics.failed(error.class());
                let this = (error.node().to_owned(), error.class());
                if told.contains(&this) {
                    tracing::debug!("{error}");
                } else {
                    tracing::warn!("{error}");
                }
                now.insert(this);
            }
            told = now;
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
        let leadership = self.leadership.clone();
        let mut applier = Applier::new(self.client.clone(), leadership, Arc::clone(&self.metrics));
        while !stopping.load(Ordering::Relaxed) {
            let now_s = i64::try_from(epoch_ms() / 1_000).unwrap_or(i64::MAX);
            if let Some(observed) = shared.observe(&history, now_s) {
                let span = tracing::debug_span!(
                    "reconcile",
                    nodes = Empty,
                    functions = Empty,
                    failed = Empty
                );
                self.pass(shared, &observed, &mut history, &mut applier)
                    .instrument(span)
                    .await;
            }
            self.rest(shared, stopping).await;
        }
    }

    /// Waits until the next pass is due, or until a function is woken.
    async fn rest(&self, shared: &Shared, stopping: &AtomicBool) {
        let due = async {
            if !stopping.load(Ordering::Relaxed) {
                sleep(LEAST).await;
            }
            // A pass follows even without a change, as decisions depend on time.
            drop(timeout(self.options.interval, shared.changed.notified()).await);
        };
        tokio::select! {
            () = due => {}
            () = shared.woken.notified() => {}
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
        shared.ordered.note_tensors(observed);
        let plan = tracing::debug_span!("plan")
            .in_scope(|| reconcile(observed, &self.options.settings, epoch_ms()));
        self.metrics.planned(began.elapsed().as_secs_f64());
        let leads = self.leadership.leads();
        let nodes = observed.inventory.nodes().count();
        self.metrics.state(leads, nodes);
        let span = Span::current();
        span.record("nodes", nodes);
        span.record("functions", plan.functions.len());
        history.planned(&plan.functions, shared.clock());
        self.published.send_replace(Arc::new(plan.snapshot.clone()));
        self.ready.store(true, Ordering::Relaxed);
        if leads {
            span.record("failed", applier.carry_out(&plan).await);
        }
    }

    /// Places waiting pods, for ever.
    async fn place(&self, shared: &Shared) {
        let mut memory = Memory::default();
        let metrics = Arc::clone(&self.metrics);
        let placer = Placer::new(self.client.clone(), self.leadership.clone(), metrics);
        loop {
            sleep(PLACING).await;
            let pods = shared.watches.pods.all();
            if !shared.may_place() || !pods.is_some_and(|pods| Memory::has_work(&pods)) {
                continue;
            }
            let Some(observed) = shared.observe_with(unmeasured) else {
                continue;
            };
            let now = shared.clock();
            let mut steps = steps(&observed, &mut memory, &self.options.settings, now);
            shared.ordered.hold_back(&mut steps, &observed);
            if self.leadership.leads() && !steps.is_empty() {
                let span = tracing::debug_span!("place", steps = steps.len());
                placer
                    .carry_out(steps, &mut memory, now)
                    .instrument(span)
                    .await;
            }
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
