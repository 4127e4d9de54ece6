//! Models that pods keep on this node, and mounts of them for other pods.
//!
//! # Flow
//! A pod that keeps a model, its keeper, stays connected to the daemon and reports how far it is. A pod
//! that mounts the model waits for it: `volumes` asks the broker ([`KeptModels::state`]), makes a mount, and has
//! the broker pass its descriptor to the keeper ([`KeptModels::mount`]), which answers for the files from then on.
//!
//! # Guarantees
//! - A model belongs to the trust domain of its keeper in one store: pods of other domains neither see
//!   nor mount it.
//! - A keeper with a priority gives its model up when one of a higher has no room, unless a pod has it mounted.
//! - What is kept here is as much as there are connections, and the latest failures of a store.

mod mounts;
mod question;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_store_layout::TrustDomain;
use tetris_wire::daemon::{ModelReport, ModelStage};
use tokio::sync::{Notify, oneshot};

use crate::report::KeptStatus;
use crate::uuid::split_uuid;

pub use mounts::{MountAnswer, MountOrder, order_mount, serve_mounts};
pub use question::{ModelQuestion, ModelState};

/// Longest wait of a keeper's report for a mount: while it fetches, news is due.
const PULLING_WAIT: Duration = Duration::from_secs(1);
const PRESENT_WAIT: Duration = Duration::from_secs(20);
/// Most failures kept for a store, whose keepers are gone.
const FAILURES: usize = 64;
/// Longest memory of a failure: the kubelet starts the keeper again after 5 minutes at most.
const FAILURE_AGE: Duration = Duration::from_mins(15);
/// Most models of a list.
const SHOWN: usize = 256;
/// Mounts that wait for a keeper to take them.
const ORDERS: usize = 16;
/// Longest wait for a keeper to give way before another is asked.
const YIELD: Duration = Duration::from_secs(10);
/// Longest wait for a keeper to take a mount.
const TAKE: Duration = Duration::from_secs(5);

/// A model, as pods name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelKey {
    /// Name of the store.
    pub store: String,
    /// The domain of its keeper.
    pub domain: TrustDomain,
    /// Its name.
    pub name: String,
}

/// All models that pods keep.
#[derive(Clone, Default)]
pub struct KeptModels(Arc<Mutex<Registry>>);

#[derive(Default)]
struct Registry {
    keepers: BTreeMap<u64, Keeper>,
    next: u64,
    failures: VecDeque<(ModelKey, String, Instant)>,
}

struct Keeper {
    key: ModelKey,
    report: Option<ModelReport>,
    orders: VecDeque<PassedMount>,
    news: Arc<Notify>,
    /// `None` for a keeper that does not give way.
    priority: Option<u32>,
    /// Set while it gives way to another.
    yielding: Option<Yielding>,
}

/// A keeper's way out.
#[derive(Debug, Clone, Copy)]
struct Yielding {
    since: tokio::time::Instant,
    /// True once it knows.
    is_told: bool,
}

/// News for a keeper.
#[derive(Debug)]
pub enum KeeperOrder {
    /// It is to answer for a mount.
    Mount(PassedMount),
    /// It is to give its model up.
    Yield,
}

/// A mount for a keeper to answer for.
#[derive(Debug)]
pub struct PassedMount {
    /// Its number.
    pub mount: u64,
    /// Its descriptor, of `/dev/fuse`.
    pub device: OwnedFd,
    taken: oneshot::Sender<()>,
}

impl PassedMount {
    /// Tells the one who ordered the mount that the keeper has it.
    pub fn taken(self) {
        // It may wait no longer.
        let _gone = self.taken.send(());
    }
}

/// The reason no keeper took a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotMounted {
    /// None has the model.
    #[error("no pod of this node has the model any more")]
    NoKeeper,
    /// The keeper has many mounts to take.
    #[error("the pod that keeps the model is busy")]
    Busy,
    /// It did not take this one in time.
    #[error("the pod that keeps the model does not answer")]
    NoAnswer,
}

impl fmt::Debug for KeptModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keepers = self.locked().keepers.len();
        f.debug_struct("KeptModels")
            .field("keepers", &keepers)
            .finish_non_exhaustive()
    }
}

impl KeptModels {
    /// Adds a keeper of `key`, until its handle is dropped.
    pub fn keep(&self, key: ModelKey) -> KeeperHandle {
        let mut registry = self.locked();
        let number = registry.next;
        registry.next += 1;
        let news = Arc::new(Notify::new());
        let keeper = Keeper {
            key,
            report: None,
            orders: VecDeque::new(),
            news: Arc::clone(&news),
            priority: None,
            yielding: None,
        };
        registry.keepers.insert(number, keeper);
        KeeperHandle {
            models: self.clone(),
            number,
            news,
        }
    }

    /// The state of a model: that of the keeper which is furthest, of several the last that came.
    pub fn state(&self, key: &ModelKey) -> ModelState {
        let registry = self.locked();
        if let Some(report) = registry
            .best(key)
            .and_then(|(_, keeper)| keeper.stage().and(keeper.report.clone()))
        {
            return ModelState::from(&report);
        }
        let failures = registry.failures.iter().rev();
        let mut failures = failures.filter(|(_, _, at)| at.elapsed() < FAILURE_AGE);
        match failures.find(|(failed, ..)| failed == key) {
            Some((_, problem, _)) => ModelState::Failed {
                problem: problem.clone(),
            },
            None => ModelState::Absent,
        }
    }

    /// All models with their furthest keepers, at most 256.
    pub fn list(&self) -> Vec<KeptStatus> {
        let registry = self.locked();
        let keys: BTreeSet<&ModelKey> = registry
            .keepers
            .values()
            .map(|keeper| &keeper.key)
            .collect();
        let shown = keys.into_iter().filter_map(|key| {
            let (_, keeper) = registry.best(key)?;
            let report = keeper.report.as_ref()?;
            Some(KeptStatus {
                store: split_uuid(&key.store).0.to_owned(),
                name: key.name.clone(),
                state: match report.stage {
                    ModelStage::Pulling | ModelStage::Blocked => "pulling",
                    ModelStage::Present => "present",
                    ModelStage::Failed => "failed",
                },
                done_bytes: report.done,
                total_bytes: report.total,
                bytes_per_second: report.bytes_per_second,
            })
        });
        shown.take(SHOWN).collect()
    }

    /// Has a keeper of the model answer for a mount. Returns when it has taken the descriptor.
    ///
    /// # Errors
    /// When no keeper has the model, or takes the mount in time.
    pub async fn mount(
        &self,
        key: &ModelKey,
        mount: u64,
        device: OwnedFd,
    ) -> Result<(), NotMounted> {
        let (taken, is_taken) = oneshot::channel();
        let order = PassedMount {
            mount,
            device,
            taken,
        };
        self.order(key, order)?;
        match tokio::time::timeout(TAKE, is_taken).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(NotMounted::NoKeeper),
            Err(_) => {
                self.withdraw(mount);
                Err(NotMounted::NoAnswer)
            }
        }
    }

    fn order(&self, key: &ModelKey, order: PassedMount) -> Result<(), NotMounted> {
        let mut registry = self.locked();
        let best = registry.best(key).map(|(number, _)| number);
        let keeper = best.and_then(|number| registry.keepers.get_mut(&number));
        let keeper = keeper
            .filter(|keeper| keeper.stage() == Some(ModelStage::Present))
            .ok_or(NotMounted::NoKeeper)?;
        if keeper.orders.len() >= ORDERS {
            return Err(NotMounted::Busy);
        }
        keeper.orders.push_back(order);
        keeper.news.notify_one();
        Ok(())
    }

    /// Takes back a mount that no keeper took.
    fn withdraw(&self, mount: u64) {
        let mut withdrawn = Vec::new();
        for keeper in self.locked().keepers.values_mut() {
            let (of_mount, others) = keeper
                .orders
                .drain(..)
                .partition::<Vec<_>, _>(|order| order.mount == mount);
            keeper.orders.extend(others);
            withdrawn.extend(of_mount);
        }
        // Closed without the lock: the last close of a mount's descriptor ends the mount.
        drop(withdrawn);
    }

    fn locked(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Stage of the model; `None` before it is known, and for a model that goes.
    fn stage(&self) -> Option<ModelStage> {
        let report = self.report.as_ref();
        let report = report.filter(|_| self.yielding.is_none());
        report.map(|report| report.stage)
    }

    /// Returns true if the model takes room, and no pod has it mounted or is about to.
    fn is_idle(&self) -> bool {
        matches!(self.stage(), Some(stage) if stage != ModelStage::Failed)
            && self.orders.is_empty()
            && self.report.as_ref().is_some_and(|report| report.mount == 0)
    }
}

impl Registry {
    /// The furthest keeper of a model; of several the last that came.
    fn best(&self, key: &ModelKey) -> Option<(u64, &Keeper)> {
        let rank = |keeper: &Keeper| match keeper.stage() {
            None => 0,
            Some(ModelStage::Failed) => 1,
            Some(ModelStage::Pulling | ModelStage::Blocked) => 2,
            Some(ModelStage::Present) => 3,
        };
        let keepers = self.keepers.iter().filter(|(_, keeper)| keeper.key == *key);
        keepers
            .max_by_key(|(number, keeper)| (rank(keeper), **number))
            .map(|(number, keeper)| (*number, keeper))
    }

    /// Has the idle model of the lowest priority, of several the last that came, give way to that of keeper `blocked`, which
    /// has a higher one. One of a store at a time.
    fn make_way(&mut self, blocked: u64) {
        let Some(blocked) = self.keepers.get(&blocked) else {
            return;
        };
        let (store, priority) = (blocked.key.store.clone(), blocked.priority);
        let of_store = |keeper: &Keeper| keeper.key.store == store;
        let is_yielding = |keeper: &Keeper| {
            let yielding = keeper.yielding;
            yielding.is_some_and(|yielding| yielding.since.elapsed() < YIELD)
        };
        if self
            .keepers
            .values()
            .any(|keeper| of_store(keeper) && is_yielding(keeper))
        {
            return;
        }
        let lower = self.keepers.iter_mut().filter(|(_, keeper)| {
            of_store(keeper) && keeper.priority.is_some() && keeper.priority < priority
        });
        let idle = lower.filter(|(_, keeper)| keeper.is_idle());
        if let Some((_, keeper)) =
            idle.min_by_key(|(number, keeper)| (keeper.priority, Reverse(**number)))
        {
            keeper.yielding = Some(Yielding {
                since: tokio::time::Instant::now(),
                is_told: false,
            });
            keeper.news.notify_one();
        }
    }

    fn note_failure(&mut self, key: ModelKey, problem: String) {
        self.failures.retain(|(failed, ..)| *failed != key);
        let of_store = |(failed, ..): &(ModelKey, String, Instant)| failed.store == key.store;
        if self
            .failures
            .iter()
            .filter(|failure| of_store(failure))
            .count()
            >= FAILURES
            && let Some(oldest) = self.failures.iter().position(of_store)
        {
            self.failures.remove(oldest);
        }
        self.failures.push_back((key, problem, Instant::now()));
    }
}

/// A connected keeper.
pub struct KeeperHandle {
    models: KeptModels,
    number: u64,
    news: Arc<Notify>,
}

impl KeeperHandle {
    /// Takes note of the model's priority, by which it gives way to others in a full store.
    pub fn rank(&self, priority: u32) {
        if let Some(keeper) = self.models.locked().keepers.get_mut(&self.number) {
            keeper.priority = Some(priority);
        }
    }

    /// Takes note of a report, and waits for news: for a second while the model is not there.
    pub async fn report(&self, report: ModelReport) -> Option<KeeperOrder> {
        let wait = match report.stage {
            ModelStage::Present => PRESENT_WAIT,
            ModelStage::Pulling | ModelStage::Failed | ModelStage::Blocked => PULLING_WAIT,
        };
        self.note(report);
        let next = async {
            loop {
                if let Some(order) = self.take() {
                    return order;
                }
                self.news.notified().await;
            }
        };
        tokio::time::timeout(wait, next).await.ok()
    }

    fn note(&self, report: ModelReport) {
        let is_blocked = report.stage == ModelStage::Blocked;
        let mut registry = self.models.locked();
        if let Some(keeper) = registry.keepers.get_mut(&self.number) {
            keeper.report = Some(report);
            // It was asked, and stays.
            keeper.yielding = keeper.yielding.filter(|yielding| !yielding.is_told);
        }
        if is_blocked {
            registry.make_way(self.number);
        }
    }

    fn take(&self) -> Option<KeeperOrder> {
        let mut registry = self.models.locked();
        let keeper = registry.keepers.get_mut(&self.number)?;
        if let Some(yielding) = &mut keeper.yielding
            && !yielding.is_told
        {
            yielding.is_told = true;
            return Some(KeeperOrder::Yield);
        }
        let order = keeper.orders.pop_front()?;
        // Others are given this mount from now on, before the keeper reports it.
        if let Some(report) = &mut keeper.report {
            report.mount = order.mount;
        }
        Some(KeeperOrder::Mount(order))
    }
}

impl Drop for KeeperHandle {
    fn drop(&mut self) {
        let mut registry = self.models.locked();
        let gone = registry.keepers.remove(&self.number);
        if let Some(keeper) = &gone
            && let Some(report) = &keeper.report
        {
            let key = keeper.key.clone();
            match report.stage {
                ModelStage::Failed => registry.note_failure(key, report.problem.clone()),
                _ => registry.failures.retain(|(failed, ..)| *failed != key),
            }
        }
        drop(registry);
        // Its descriptors are closed without the lock.
        drop(gone);
    }
}
