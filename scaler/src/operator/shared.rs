//! State that the operator's tasks share, and the observations from it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::engines::Engines;
use super::health::{Failing, Troubles, troubles};
use super::history::History;
use super::loads::Loads;
use super::models::{self, OrderedModels};
use super::observed::{FunctionInput, Observed};
use super::prepare::{Preparations, Prepared, Unprepared};
use super::profiling::{self, MeasurementStates};
use super::records::FunctionRecord;
use super::watches::Watches;
use crate::gateways::GatewayLoads;
use crate::load::LoadError;
use crate::nodes::{Inventories, Poller};
use crate::placement::PlacementMode;
use crate::resources::LoadSource;
use crate::state::Key;

/// Maximum wait of the first pass for the first answers of daemons, of Prometheus and of gateways.
const FIRST_ANSWERS: Duration = Duration::from_secs(15);
/// Maximum wait of placing for the first answers of daemons.
const FIRST_TENSORS: Duration = Duration::from_secs(3);
/// Minimum length of a window in intervals: two measurements a window apart say nothing about the
/// load in between.
const LEAST_WINDOW: u32 = 3;

/// State shared by the tasks.
pub(super) struct Shared {
    pub(super) watches: Watches,
    pub(super) loads: Loads,
    pub(super) gateways: GatewayLoads,
    pub(super) inventories: Arc<Mutex<Inventories>>,
    pub(super) ordered: OrderedModels,
    pub(super) engines: Engines,
    pub(super) profiling: MeasurementStates,
    pub(super) changed: Notify,
    /// Notified when a pass must be made at once.
    pub(super) woken: Notify,
    /// Notified when a function has no load query yet.
    pub(super) unasked: Notify,
    /// True once loads have been queried.
    pub(super) measured: AtomicBool,
    /// True once daemons have been polled.
    pub(super) polled: AtomicBool,
    /// True once the loads that gateways count are known, or will not be soon.
    pub(super) heard: AtomicBool,
    pub(super) preparations: Mutex<Preparations>,
    interval: Duration,
    /// Time for which an instance may be unready on its node, in seconds.
    failing_after_s: u64,
    mode: PlacementMode,
    started: Instant,
}

impl Shared {
    /// Creates the state at the start, with the `interval` of load queries, and the time for which an
    /// instance may be unready on its node.
    pub(super) fn new(
        interval: Duration,
        failing_after: Duration,
        mode: PlacementMode,
        poller: &Poller,
    ) -> Self {
        Self {
            watches: Watches::default(),
            loads: Loads::new(interval.saturating_mul(LEAST_WINDOW)),
            gateways: GatewayLoads::default(),
            inventories: poller.latest(),
            ordered: OrderedModels::default(),
            engines: Engines::default(),
            profiling: MeasurementStates::default(),
            changed: Notify::new(),
            woken: Notify::new(),
            unasked: Notify::new(),
            measured: AtomicBool::new(false),
            polled: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            preparations: Mutex::default(),
            interval,
            failing_after_s: failing_after.as_secs(),
            mode,
            started: Instant::now(),
        }
    }

    /// Returns what the operator's models need.
    pub(super) fn around_models(&self) -> models::Surroundings<'_> {
        models::Surroundings {
            watches: &self.watches,
            inventories: &self.inventories,
            ordered: &self.ordered,
            engines: &self.engines,
            changed: &self.changed,
        }
    }

    /// Returns what measurements need.
    pub(super) fn around_measurements(&self) -> profiling::Surroundings<'_> {
        profiling::Surroundings {
            watches: &self.watches,
            engines: &self.engines,
            states: &self.profiling,
            changed: &self.changed,
        }
    }

    /// Returns true once the inputs of a pass are complete, or after a timeout. An earlier pass
    /// would report wrong states, and place instances away from their tensors.
    pub(super) fn may_begin(&self) -> bool {
        let asked = |what: &AtomicBool| what.load(Ordering::Relaxed);
        let all = [&self.measured, &self.polled, &self.heard];
        all.into_iter().all(asked) || self.started.elapsed() >= FIRST_ANSWERS
    }

    /// Returns true once placing can begin: soon, as pods wait, but with the tensors if daemons
    /// answer.
    pub(super) fn may_place(&self) -> bool {
        self.polled.load(Ordering::Relaxed) || self.started.elapsed() >= FIRST_TENSORS
    }

    /// Returns monotonic milliseconds.
    pub(super) fn clock(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the input of a pass at `now_s`, in seconds since the epoch, or `None` before all lists
    /// are complete.
    pub(super) fn observe(&self, history: &History, now_s: i64) -> Option<Observed> {
        if !self.may_begin() {
            return None;
        }
        let (pods, nodes) = (self.watches.pods.all()?, self.watches.nodes.all()?);
        let troubles = troubles(&pods, &nodes, now_s, self.failing_after_s);
        self.observe_with(|record, prepared| self.input(history, &troubles, record, prepared))
    }

    /// Returns the current observations, or `None` before all lists are complete.
    pub(super) fn observe_with(
        &self,
        input: impl Fn(&Arc<FunctionRecord>, Result<Arc<Prepared>, Unprepared>) -> FunctionInput,
    ) -> Option<Observed> {
        let watches = &self.watches;
        let functions = watches.functions.all()?;
        let profiles = watches.profiles.all()?;
        let functions: Vec<FunctionInput> = {
            let preparations = self.preparations.lock();
            let mut preparations = preparations.unwrap_or_else(PoisonError::into_inner);
            preparations.keep(&functions);
            let engines = self.engines.latest();
            let inputs = functions.values().map(|record| {
                let prepared = preparations.get(record, &profiles, &engines);
                input(record, prepared)
            });
            inputs.collect()
        };
        let inventories = self.inventories.lock();
        let inventories = inventories.unwrap_or_else(PoisonError::into_inner).clone();
        Some(Observed {
            functions,
            deployments: watches.deployments.all()?,
            pods: watches.pods.all()?,
            nodes: watches.nodes.all()?,
            inventory: inventories.inventory,
            rooms: inventories.rooms,
            gpus: inventories.gpus,
            mode: self.mode,
        })
    }

    /// Returns a function with its current observations.
    fn input(
        &self,
        history: &History,
        troubles: &BTreeMap<Key, Troubles>,
        record: &Arc<FunctionRecord>,
        prepared: Result<Arc<Prepared>, Unprepared>,
    ) -> FunctionInput {
        let now = self.clock();
        let stale = self.interval.saturating_mul(4) + Duration::from_secs(10);
        let stale = u64::try_from(stale.as_millis()).unwrap_or(u64::MAX);
        let reading = self.loads.of(record, now, stale);
        let source = record.function.as_ref().map(|function| &function.load);
        let is_queried = source.is_ok_and(|source| *source != LoadSource::Gateway);
        if is_queried && reading.load == Err(LoadError::NotAsked) {
            self.unasked.notify_one();
        }
        FunctionInput {
            prepared,
            load: reading.load,
            latency: reading.latency,
            pod_loads: reading.pods,
            peak: reading.peak,
            is_demanded: reading.is_demanded,
            consolidate: history.may_consolidate(&record.key, now),
            give_up_retiring: history.gives_up(&record.key, now),
            refresh_status: history.may_report(&record.key, now),
            failing: history.failing(
                &record.key,
                troubles.get(&record.key).cloned().unwrap_or_default(),
                now,
            ),
            profiling: self.profiling.get(&record.key),
            record: Arc::clone(record),
        }
    }
}

/// Returns a function without its load, which placing does not need.
pub(super) fn unmeasured(
    record: &Arc<FunctionRecord>,
    prepared: Result<Arc<Prepared>, Unprepared>,
) -> FunctionInput {
    FunctionInput {
        prepared,
        load: Err(LoadError::NotAsked),
        pod_loads: Arc::default(),
        peak: None,
        is_demanded: false,
        consolidate: false,
        give_up_retiring: false,
        refresh_status: false,
        failing: Failing::default(),
        latency: None,
        profiling: None,
        record: Arc::clone(record),
    }
}
