//! References of the GPU mirror to objects: registered pages, which it releases for a load.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::GpuMirrorView;
use super::orders::Orders;
use crate::room::DaemonReferences;

/// Longest wait of a pass for the driver to release pages. Gigabytes take it some tenths of a
/// second.
const LONGEST: Duration = Duration::from_secs(2);

/// Has the GPU mirror's thread release registered pages of stores. Does nothing without a GPU
/// mirror.
#[derive(Debug)]
pub struct GpuMirrorReferences {
    orders: Arc<Orders>,
    view: Arc<GpuMirrorView>,
    /// The answer that took too long. Nothing more is asked until it is there.
    late: Mutex<Option<Receiver<u64>>>,
}

impl GpuMirrorReferences {
    pub(super) fn new(orders: Arc<Orders>, view: Arc<GpuMirrorView>) -> Self {
        Self {
            orders,
            view,
            late: Mutex::default(),
        }
    }
}

impl DaemonReferences for GpuMirrorReferences {
    fn release(&self, stores: &[String]) -> u64 {
        if !self.view.is_open() {
            return 0;
        }
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(earlier) = late.take()
            && matches!(earlier.try_recv(), Err(TryRecvError::Empty))
        {
            *late = Some(earlier);
            return 0;
        }
        let (done, answer) = sync_channel(1);
        if !self.orders.unpin(stores.to_vec(), done) {
            return 0;
        }
        match answer.recv_timeout(LONGEST) {
            Ok(bytes) => bytes,
            Err(RecvTimeoutError::Disconnected) => 0,
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!("the GPU mirror is slow to release pages: a later pass frees them");
                *late = Some(answer);
                0
            }
        }
    }
}
