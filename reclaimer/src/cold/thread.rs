//! The thread that keeps models on the disk and brings them back.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tetris_cold::{ColdError, ColdStore, ColdTier, ColdUse, Restored};
use tetris_reclaimer_core::{Policy, Space};
use tetris_store_layout::Store;

use super::config::ColdConfig;
use super::orders::{
    ColdOrders, GoneStores, Order, QUEUE, RestoreOrder, RestoreStage, ServedStore,
};
use crate::room::RoomNeed;

/// Least time between two looks for models that the disk does not have. Passes ask for them, after publications among others.
const LOOK: Duration = Duration::from_secs(5);
/// Longest wait for an order while no look is due.
const IDLE: Duration = Duration::from_hours(1);

/// Makes room in a store. Returns false if there is none.
pub type MakeStoreRoom = Box<dyn Fn(RoomNeed) -> bool + Send>;

/// Receives what the thread does.
pub trait ColdObserver: Send {
    /// Bytes of a store's models were written to the disk.
    fn kept(&self, store: &str, bytes: u64);
    /// Bytes of a store's models were read from the disk.
    fn restored(&self, store: &str, bytes: u64);
    /// A model on the disk was damaged.
    fn damaged(&self, store: &str);
    /// The use of the disk by store.
    fn usage(&self, usage: &[ColdUse]);
}

/// The thread. It ends when this is dropped.
pub struct ColdThread {
    orders: Option<ColdOrders>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ColdThread {
    /// Starts the thread over the tier that `config` describes.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        config: ColdConfig,
        policy: Policy,
        make_room: MakeStoreRoom,
        observer: impl ColdObserver + 'static,
    ) -> io::Result<Self> {
        let (sender, received) = sync_channel(QUEUE);
        let orders = ColdOrders::new(sender);
        let stop = Arc::new(AtomicBool::new(false));
        let (waiting, is_stopped) = (orders.waiting(), Arc::clone(&stop));
        let gone = orders.gone();
        let work = move || {
            let tier = ColdTier::new(&config.path, config.limits());
            let mut keeper = Keeper {
                tier,
                policy,
                make_room,
                observer,
                stores: BTreeMap::new(),
                waiting,
                gone,
                is_stopped,
                is_changed: true,
                told: BTreeMap::new(),
            };
            keeper.run(&received);
        };
        let thread = std::thread::Builder::new().name("cold".to_owned());
        Ok(Self {
            orders: Some(orders),
            stop,
            thread: Some(thread.spawn(work)?),
        })
    }

    /// A way to give it orders.
    pub fn orders(&self) -> Option<ColdOrders> {
        self.orders.clone()
    }

    /// Removes what the disk has of a store whose tenant is gone.
    pub fn forget(&self, store: &str) {
        if let Some(orders) = &self.orders {
            orders.forget(store);
        }
    }

    /// Looks after the models of these stores, and no others.
    pub fn serve(&self, stores: Vec<ServedStore>) {
        if let Some(orders) = &self.orders {
            orders.serve(stores);
        }
    }
}

impl Drop for ColdThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(orders) = self.orders.take() {
            orders.stop();
        }
        if let Some(thread) = self.thread.take() {
            // A panic there was reported already.
            let _panicked = thread.join();
        }
    }
}

/// A tensor store that the thread looks after.
struct Warm {
    served: ServedStore,
    store: Store,
    /// True until the models of an earlier store of this name were restored.
    is_new: bool,
}

struct Keeper<O> {
    tier: ColdTier,
    policy: Policy,
    make_room: MakeStoreRoom,
    observer: O,
    stores: BTreeMap<String, Warm>,
    waiting: Arc<AtomicUsize>,
    gone: GoneStores,
    is_stopped: Arc<AtomicBool>,
    /// True if the use of the disk may have changed since it was last reported.
    is_changed: bool,
    /// The last logged failure by store, so that it is logged once.
    told: BTreeMap<String, String>,
}

impl<O: ColdObserver> Keeper<O> {
    fn run(&mut self, orders: &Receiver<Order>) {
        let (mut last, mut next) = (Instant::now(), None);
        while !self.is_stopped.load(Ordering::Relaxed) {
            let wait = next.map_or(IDLE, |next: Instant| {
                next.saturating_duration_since(Instant::now())
            });
            match orders.recv_timeout(wait) {
                Ok(Order::Serve(stores)) => {
                    self.serve(stores);
                    next = next.or(Some(last + LOOK));
                }
                Ok(Order::Restore(order)) => self.answer(&order),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.restore_new();
            if next.is_some_and(|next| Instant::now() >= next) {
                for store in self.gone.take() {
                    self.forget(&store);
                }
                self.keep();
                last = Instant::now();
                // It goes on where it gave way to a client.
                next = (!self.is_idle()()).then_some(last + LOOK);
            }
        }
    }

    fn serve(&mut self, stores: Vec<ServedStore>) {
        let is_served = |warm: &Warm| stores.iter().any(|served| served.open == warm.served.open);
        self.stores.retain(|_, warm| is_served(warm));
        for served in stores {
            let name = served.open.name.clone();
            if let Some(warm) = self.stores.get_mut(&name) {
                warm.served = served;
                continue;
            }
            match Store::open(&served.open.root) {
                Ok(store) => {
                    let warm = Warm {
                        served,
                        store,
                        is_new: true,
                    };
                    self.stores.insert(name, warm);
                }
                Err(error) => {
                    tracing::debug!(store = name, %error, "the cold tier waits for the store");
                }
            }
        }
    }

    /// Returns a check that other work may go on: no client waits, and the daemon does not stop.
    fn is_idle(&self) -> impl Fn() -> bool + use<O> {
        let (waiting, is_stopped) = (Arc::clone(&self.waiting), Arc::clone(&self.is_stopped));
        move || waiting.load(Ordering::Relaxed) == 0 && !is_stopped.load(Ordering::Relaxed)
    }

    /// Keeps what the disk does not have.
    fn keep(&mut self) {
        let is_idle = self.is_idle();
        let mut is_changed = std::mem::take(&mut self.is_changed);
        for (name, warm) in &self.stores {
            let span = tracing::debug_span!("cold_keep", store = name);
            let _entered = span.enter();
            match self.tier.keep_models(name, &warm.store, &is_idle) {
                Ok(kept) => {
                    is_changed |= !kept.is_empty();
                    for kept in kept {
                        tracing::info!(store = name, bytes = kept.bytes, "a model is on the disk");
                        self.observer.kept(name, kept.bytes);
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if self.told.get(name) != Some(&error) {
                        tracing::warn!(store = name, error, "no model is kept on the disk");
                    }
                    self.told.insert(name.clone(), error);
                    continue;
                }
            }
            self.told.remove(name);
        }
        self.told.retain(|name, _| self.stores.contains_key(name));
        // All objects of the disk are listed for it.
        if is_changed {
            self.observer.usage(&self.tier.usage());
        }
    }

    /// Restores the models of new stores, e.g. after a restart of the machine, the last used first, while there is free room.
    fn restore_new(&mut self) {
        let is_idle = self.is_idle();
        let names: Vec<String> = self.stores.keys().cloned().collect();
        for name in names {
            let Some(warm) = self.stores.get_mut(&name).filter(|warm| warm.is_new) else {
                continue;
            };
            let models = self.tier.open(&name).and_then(ColdStore::models);
            let models = models.unwrap_or_else(|error| {
                tracing::warn!(store = name, %error, "the cold tier has no models");
                Vec::new()
            });
            for model in models {
                if !is_idle() {
                    return;
                }
                let Ok(cold) = self.tier.open(&name) else {
                    break;
                };
                let room = |bytes, files| has_free_room(warm, &self.policy, bytes, files);
                let restored = cold.restore(&model, &warm.store, &room, &|_, _| ());
                note(&name, &restored, &self.observer);
                self.is_changed |= restored.is_err();
            }
            warm.is_new = false;
        }
    }

    /// Restores the model that a client waits for.
    fn answer(&mut self, order: &RestoreOrder) {
        if order.is_given_up() {
            return;
        }
        let span = tracing::debug_span!("cold_restore", store = order.store);
        let _entered = span.enter();
        let stage = match self.restore(order) {
            Ok(Some(restored)) => RestoreStage::Restored(restored),
            Ok(None) => RestoreStage::Refused("the cold tier does not have the model".to_owned()),
            Err(error) => RestoreStage::Refused(error.to_string()),
        };
        order.stage.send_replace(stage);
    }

    fn restore(&mut self, order: &RestoreOrder) -> Result<Option<Restored>, ColdError> {
        let Some(warm) = self.stores.get(&order.store) else {
            return Ok(None);
        };
        let cold = self.tier.open(&order.store)?;
        let Some(model) = cold.find(&order.source, &order.domains)? else {
            return Ok(None);
        };
        let room = |bytes, inodes| {
            (self.make_room)(RoomNeed {
                store: order.store.clone(),
                bytes,
                inodes,
                ..RoomNeed::default()
            })
        };
        let done = |done, total| {
            order
                .stage
                .send_replace(RestoreStage::Reading { done, total });
        };
        let restored = cold.restore(&model, &warm.store, &room, &done);
        note(&order.store, &restored, &self.observer);
        // A damaged model has left the disk.
        self.is_changed |= restored.is_err();
        restored.map(Some)
    }

    fn forget(&mut self, name: &str) {
        self.is_changed = true;
        self.stores.remove(name);
        match self.tier.forget(name) {
            Ok(()) => tracing::info!(store = name, "the disk has nothing of this store any more"),
            Err(error) => {
                tracing::warn!(store = name, %error, "the disk still has models of a removed store");
            }
        }
    }
}

/// Reports a restored model, or the reason that it was not.
fn note(store: &str, restored: &Result<Restored, ColdError>, observer: &impl ColdObserver) {
    match restored {
        Ok(Restored { objects: 0, .. }) => {}
        Ok(Restored { objects, bytes }) => {
            tracing::info!(store, objects, bytes, "a model is back from the disk");
            observer.restored(store, *bytes);
        }
        Err(error @ ColdError::NoRoom { .. }) => {
            tracing::info!(store, %error, "a model stays on the disk");
        }
        Err(error) => {
            tracing::warn!(store, %error, "a model did not come back from the disk");
            if matches!(error, ColdError::Damaged { .. }) {
                observer.damaged(store);
            }
        }
    }
}

/// Returns true if a store has room below its limit and the mount's high watermark without freeing anything.
fn has_free_room(warm: &Warm, policy: &Policy, bytes: u64, files: u64) -> bool {
    let Ok(usage) = warm.store.usage() else {
        return false;
    };
    let percent = u64::from(policy.config().high_watermark_percent);
    let is_below = |free: u64, needed: u64, capacity: u64| {
        free.saturating_sub(needed) >= capacity / 100 * (100 - percent.min(100))
    };
    let capacity = Space {
        bytes: usage.capacity,
        inodes: usage.inodes,
    };
    let ServedStore {
        policy: of_store,
        own_of_namespace,
        ..
    } = &warm.served;
    let limit = of_store.share(*own_of_namespace, capacity).limit;
    let objects = warm.store.objects().map(|listing| listing.objects);
    let used: u64 = objects
        .iter()
        .flatten()
        .map(|object| object.allocated)
        .sum();
    is_below(usage.free, bytes, usage.capacity)
        && (usage.inodes == 0 || is_below(usage.inodes_free, files, usage.inodes))
        && used.saturating_add(bytes) <= limit.bytes
}
