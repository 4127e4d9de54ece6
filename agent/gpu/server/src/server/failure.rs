//! Loads that fail, and devices that do not work any more.

use super::core::Core;
use super::jobs::Load;
use crate::copy::CopyError;
use crate::residency::DeviceId;
use tetris_gpu_device::{DeviceMemory, MemoryError};
use tetris_gpu_protocol::Reason;

impl<D: DeviceMemory> Core<D> {
    /// Notifies the clients of a load that it failed.
    pub fn fail(&self, id: DeviceId, load: &Load, error: &CopyError) {
        tracing::warn!(%error, device = %id, "a model could not be copied to a device");
        self.metrics.failed_transfers.one();
        let text = match error {
            CopyError::Memory(MemoryError::OutOfMemory { .. }) => {
                format!(
                    "{error}; no idle model is left, and processes beside the mirror keep the rest"
                )
            }
            _ => error.to_string(),
        };
        self.failed(id, load, &(reason(error), text));
    }

    /// Gives up the device if the driver cannot even report its memory. Errors of a context are
    /// sticky: every later call in this process returns them.
    pub fn check(&self, id: DeviceId, device: &D) {
        if self.state().lost(Some(id)).is_some() {
            return;
        }
        if let Err(error) = device.info() {
            tracing::error!(%error, device = %id, "a device is lost: no model is copied to it until the daemon is restarted");
            self.lose(id, &error);
        }
    }
}

/// Converts an error into a reason for clients.
fn reason(error: &CopyError) -> Reason {
    match error {
        CopyError::Memory(MemoryError::OutOfMemory { .. }) => Reason::DEVICE_FULL,
        CopyError::NoSource { .. } => Reason::MISSING,
        _ => Reason::COPY_FAILED,
    }
}
