//! A model in device memory.

use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_protocol::Kept;

use super::lease::Lease;
use super::{DeviceError, DeviceTensor, Location};
use crate::report::LoadReport;

/// A model in device memory, mapped in this process. The memory is held while this value or one of
/// its tensors lives.
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

    /// Statistics of the load into the store.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The device.
    pub fn location(&self) -> Location {
        self.lease.location()
    }

    /// Length of the device memory mapped for the model, in bytes. The memory is shared, and can
    /// contain other objects.
    pub fn mapped_bytes(&self) -> u64 {
        self.lease.mapped_bytes()
    }

    /// Length of the model's objects, each counted once, in bytes.
    pub fn bytes(&self) -> u64 {
        self.lease.bytes()
    }

    /// Length of the objects of [`Self::bytes`] that have arrived, in bytes.
    ///
    /// # Errors
    /// [`DeviceError`] if some objects will never arrive.
    pub fn resident_bytes(&self) -> Result<u64, DeviceError> {
        self.lease.resident_bytes()
    }

    /// Waits at most `limit` until every object has arrived for which a stream waits
    /// ([`DeviceTensor::wait_on_stream`]). Results of these streams count only if this succeeds.
    ///
    /// # Errors
    /// [`DeviceError`] if an object did not arrive: kernels queued after its wait have
    /// read undefined bytes.
    pub fn check_streams(&self, limit: Duration) -> Result<(), DeviceError> {
        self.lease.check_streams(limit)
    }

    /// Asks the mirror to keep a prefix of the model on the device when no process has it, so that
    /// the rest arrives before it is needed (TIDAL, equation 1). `ttft` is the time to the first
    /// token with the whole model on the device; zero: the mirror takes the configured one.
    /// `most_bytes` limits the prefix; 0 ends it.
    ///
    /// A mirror before this request hangs up, and the model is lost. So load it for this in a
    /// [`Registry`](super::Registry).
    ///
    /// # Errors
    /// [`DeviceError`] if the mirror does not answer.
    pub fn keep_prefix(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, DeviceError> {
        self.lease.keep(ttft, most_bytes)
    }

    /// Waits at most `limit` until every object has arrived. Returns false at the limit.
    ///
    /// # Errors
    /// [`DeviceError`] if some objects will never arrive.
    pub fn wait(&self, limit: Duration) -> Result<bool, DeviceError> {
        self.lease.wait(None, limit)
    }
}
