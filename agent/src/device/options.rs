//! Options of a load into device memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{DeviceError, Target};
use crate::options::LoadOptions;

/// Default timeout of an answer of the mirror.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of a load into device memory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The requested device.
    pub target: Target,
    /// Names of tensors in the order of their use. The mirror copies them first, in this order.
    /// Unknown names are ignored, because an order recorded for another version of a model is
    /// better than none.
    pub order: Vec<String>,
    /// Maximum wait for room on the device; zero by default: no wait.
    pub wait: Duration,
    /// Timeout of an answer of the mirror; see [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// Keep the model for a later load, until [`Registry::release`](super::Registry::release).
    pub keep: bool,
    /// Set to true to cancel the load. It then ends with [`DeviceError::Cancelled`], within a
    /// second while it waits for room.
    pub cancelled: Arc<AtomicBool>,
    /// Options of the load into the store, where it goes in any size: `min_shared_bytes` has no
    /// effect.
    pub host: LoadOptions,
}

impl DeviceOptions {
    /// Returns the default options for a device.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            order: Vec::new(),
            wait: Duration::ZERO,
            timeout: DEFAULT_TIMEOUT,
            keep: false,
            cancelled: Arc::default(),
            host: LoadOptions::default(),
        }
    }

    /// Sets [`DeviceOptions::order`].
    pub fn with_order(mut self, order: Vec<String>) -> Self {
        self.order = order;
        self
    }

    /// Sets [`DeviceOptions::wait`].
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets [`DeviceOptions::timeout`].
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets [`DeviceOptions::keep`].
    pub fn with_keep(mut self, keep: bool) -> Self {
        self.keep = keep;
        self
    }

    pub(super) fn check_wanted(&self) -> Result<(), DeviceError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(DeviceError::Cancelled);
        }
        Ok(())
    }
}
