//! Orders to the thread of the cold tier.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_cold::Restored;
use tetris_reclaimer_core::StorePolicy;
use tetris_store_layout::TrustDomain;
use tokio::sync::watch;

use crate::store::OpenStore;

/// Orders that may wait for the thread.
pub(super) const QUEUE: usize = 64;

/// An order to the thread.
pub(super) enum Order {
    /// These stores are open.
    Serve(Vec<ServedStore>),
    /// A client waits for a model.
    Restore(RestoreOrder),
    /// The daemon stops.
    Stop,
}

/// A store whose models are kept and restored.
#[derive(Debug, Clone)]
pub struct ServedStore {
    /// The store.
    pub open: OpenStore,
    /// Its policy, whose limit holds for restored models, too.
    pub policy: StorePolicy,
    /// True for a namespace's own store, whose limits have defaults.
    pub own_of_namespace: bool,
}

/// A client waits for a model.
pub(super) struct RestoreOrder {
    /// Name of the store.
    pub(super) store: String,
    /// The model's source, as `tetris pull` takes it.
    pub(super) source: String,
    /// Domains whose word for the model counts.
    pub(super) domains: Vec<TrustDomain>,
    pub(super) stage: watch::Sender<RestoreStage>,
    /// Counts until the order is dropped.
    _waiting: Waiting,
}

impl RestoreOrder {
    /// Returns true once no client waits for the model any more.
    pub(super) fn is_given_up(&self) -> bool {
        self.stage.is_closed()
    }
}

/// State of a model that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreStage {
    /// Others are before it.
    Waiting,
    /// It is read from the disk.
    Reading {
        /// Number of bytes read so far.
        done: u64,
        /// Number of bytes that the store did not have.
        total: u64,
    },
    /// All of it is in the store.
    Restored(Restored),
    /// The disk does not have it, or the store no room for it.
    Refused(String),
}

/// Count of orders that clients wait for, which the thread's other work gives way to.
#[derive(Debug)]
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A way to give orders to the thread.
#[derive(Debug, Clone)]
pub struct ColdOrders {
    orders: SyncSender<Order>,
    waiting: Arc<AtomicUsize>,
    gone: GoneStores,
}

/// Stores whose tenants are gone, until the thread has looked.
#[derive(Debug, Clone, Default)]
pub(super) struct GoneStores(Arc<Mutex<Vec<String>>>);

impl GoneStores {
    fn locked(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stores since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.locked())
    }
}

impl ColdOrders {
    pub(super) fn new(orders: SyncSender<Order>) -> Self {
        Self {
            orders,
            waiting: Arc::default(),
            gone: GoneStores::default(),
        }
    }

    /// Number of clients that wait.
    pub(super) fn waiting(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting)
    }

    pub(super) fn serve(&self, stores: Vec<ServedStore>) {
        // The next pass sends them again.
        let _full = self.orders.try_send(Order::Serve(stores));
    }

    pub(super) fn stop(&self) {
        // With a full queue, it looks before the next order.
        let _full = self.orders.try_send(Order::Stop);
    }

    /// Has the thread remove what the disk has of a store whose tenant is gone, when it looks next.
    pub(super) fn forget(&self, store: &str) {
        self.gone.locked().push(store.to_owned());
    }

    pub(super) fn gone(&self) -> GoneStores {
        self.gone.clone()
    }

    /// Has a model restored. Returns its stages, or `None` if too many clients wait. The order is given up when they are dropped.
    pub fn restore(
        &self,
        store: &str,
        source: String,
        domains: Vec<TrustDomain>,
    ) -> Option<watch::Receiver<RestoreStage>> {
        let (stage, stages) = watch::channel(RestoreStage::Waiting);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let order = Order::Restore(RestoreOrder {
            store: store.to_owned(),
            source,
            domains,
            stage,
            _waiting: Waiting(Arc::clone(&self.waiting)),
        });
        match self.orders.try_send(order) {
            Ok(()) => Some(stages),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        }
    }
}
