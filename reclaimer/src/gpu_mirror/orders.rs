//! Orders to the GPU mirror's thread.

use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};

use super::GpuMirrorConfig;
use crate::store::OpenStore;

/// Stores to serve, and their configuration.
pub(super) type Wanted = (Vec<OpenStore>, GpuMirrorConfig);

/// Orders to the thread. The sender of one may have stopped waiting when it is done.
pub(super) enum Order {
    /// Serve these stores and no others.
    Serve(Wanted, SyncSender<()>),
    /// Release registered pages of these stores, and answer with their bytes.
    Unpin(Vec<String>, SyncSender<u64>),
}

/// The way to the thread, until the mirror ends.
pub(super) type Orders = Arc<Mutex<Option<Sender<Order>>>>;

/// Tells the thread, if there still is one.
pub(super) fn send(orders: &Orders, order: Order) -> bool {
    let orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread has ended when there is no driver.
    orders.as_ref().is_some_and(|to| to.send(order).is_ok())
}
