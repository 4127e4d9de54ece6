//! A model in device memory.

use std::sync::Arc;
use std::time::Duration;

use super::lease::Lease;
use super::{DeviceError, DeviceTensor, Location};
use crate::report::LoadReport;

/// A model in device memory, mapped here. The memory is held as long as this or one of its tensors lives.
#[derive(Debug)]
pub struct DeviceModel {
    tensors: Vec<DeviceTensor>,
    metadata: Vec<(String, String)>,
    report: LoadReport,
    lease: Arc<Lease>,
}

impl DeviceModel {
    pub(super) fn new(
        tensors: Vec<DeviceTensor>,
        metadata: Vec<(String, String)>,
        report: LoadReport,
        lease: Arc<Lease>,
    ) -> Self {
        Self {
            tensors,
            metadata,
            report,
            lease,
        }
    }

    /// The tensors, in file order.
    pub fn tensors(&self) -> &[DeviceTensor] {
        &self.tensors
    }

    /// The `__metadata__` of the files, in their order.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// What the load into the store did.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The device.
    pub fn location(&self) -> Location {
        self.lease.location()
    }

    /// Device memory that is mapped for the model, in bytes. It is shared, and more may lie in it.
    pub fn mapped_bytes(&self) -> u64 {
        self.lease.mapped_bytes()
    }

    /// Bytes of the model's objects, each once.
    pub fn bytes(&self) -> u64 {
        self.lease.bytes()
    }

    /// How many of [`Self::bytes`] have arrived.
    ///
    /// # Errors
    /// When some never will.
    pub fn resident_bytes(&self) -> Result<u64, DeviceError> {
        self.lease.resident_bytes()
    }

    /// Waits until everything has arrived, for at most `limit`. Returns whether it has.
    ///
    /// # Errors
    /// When something never will.
    pub fn wait(&self, limit: Duration) -> Result<bool, DeviceError> {
        self.lease.wait(None, limit)
    }
}
