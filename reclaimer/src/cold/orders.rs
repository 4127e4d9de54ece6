//! Orders to the thread of the cold tier.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use tetris_cold::Restored;
use tetris_store_layout::TrustDomain;
use tokio::sync::watch;

use crate::store::OpenStore;

/// Orders that may wait for the thread.
pub(super) const QUEUE: usize = 64;

/// An order to the thread.
pub(super) enum Order {
    /// These stores are open.
    Serve(Vec<OpenStore>),
    /// A client waits for a model.
    Restore(RestoreOrder),
    /// The tenant of a store is gone.
    Forget(String),
    /// The daemon stops.
    Stop,
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
    pub(super) waiting: Waiting,
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
}

impl ColdOrders {
    pub(super) fn new(orders: SyncSender<Order>) -> Self {
        Self {
            orders,
            waiting: Arc::default(),
        }
    }

    /// Number of clients that wait.
    pub(super) fn waiting(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting)
    }

    pub(super) fn serve(&self, open: &[OpenStore]) {
        // The next pass sends them again.
        let _full = self.orders.try_send(Order::Serve(open.to_vec()));
    }

    pub(super) fn stop(&self) {
        // With a full queue, it looks before the next order.
        let _full = self.orders.try_send(Order::Stop);
    }

    /// Removes what the disk has of a store whose tenant is gone.
    pub fn forget(&self, store: &str) {
        let _ended = self.orders.send(Order::Forget(store.to_owned()));
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
            waiting: Waiting(Arc::clone(&self.waiting)),
        });
        match self.orders.try_send(order) {
            Ok(()) => Some(stages),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        }
    }
}
