//! A tensor in device memory.

use std::sync::Arc;
use std::time::Duration;

use tetris_gpu_device::StreamHandle;
use tetris_store_layout::{Dtype, ObjectId, TensorId};

use super::lease::Lease;
use super::{DeviceError, Location};
use crate::known_model::StoredTensor;

/// A tensor in device memory. It keeps its model there; clones share the memory.
#[derive(Debug, Clone)]
pub struct DeviceTensor {
    name: String,
    dtype: Dtype,
    shape: Vec<u64>,
    id: Option<TensorId>,
    len: u64,
    /// Object, and offset there in bytes; `None` for a tensor without bytes.
    place: Option<(ObjectId, u64)>,
    lease: Arc<Lease>,
}

impl DeviceTensor {
    pub(super) fn new(tensor: StoredTensor, lease: Arc<Lease>) -> Self {
        Self {
            name: tensor.name,
            dtype: tensor.dtype,
            shape: tensor.shape,
            id: tensor.id,
            len: tensor.len,
            place: tensor.place.map(|(object, offset)| (object.id, offset)),
            lease,
        }
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Dimensions, outermost first; empty for a scalar.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Identity of the bytes.
    pub fn id(&self) -> Option<TensorId> {
        self.id
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// The device.
    pub fn location(&self) -> Location {
        self.lease.location()
    }

    /// Device address of the first byte, a multiple of 64, valid while this value lives; 0 for a
    /// tensor without bytes. The bytes are valid on every stream once [`Self::wait`] has returned
    /// true.
    pub fn address(&self) -> u64 {
        let address = |(id, offset): (ObjectId, u64)| Some(self.lease.address(&id)? + offset);
        self.place.and_then(address).unwrap_or(0)
    }

    /// Waits at most `limit` for the bytes. Returns false at the limit.
    ///
    /// # Errors
    /// [`DeviceError`] if they will never arrive.
    pub fn wait(&self, limit: Duration) -> Result<bool, DeviceError> {
        match &self.place {
            Some((id, _)) => self.lease.wait(Some(id), limit),
            None => Ok(true),
        }
    }

    /// Has a stream of another library wait for the bytes; the host waits until they are mapped, and
    /// no longer: kernels queued on the stream later read them. Returns false if they have arrived already. Results count
    /// only if [`DeviceModel::check_streams`](super::DeviceModel::check_streams) succeeds after the
    /// kernels were queued. Not during a capture of a graph, which would keep the wait.
    ///
    /// # Errors
    /// [`DeviceError`] if the device has no such waits: the simulated one.
    pub fn wait_on_stream(&self, stream: StreamHandle) -> Result<bool, DeviceError> {
        match &self.place {
            Some((id, _)) => self.lease.wait_on_stream(id, stream),
            None => Ok(false),
        }
    }

    /// Copies the bytes, once they have arrived, from the device into `to`, which must have the
    /// same length.
    ///
    /// # Errors
    /// [`DeviceError`] if the memory is no longer valid or the copy fails.
    pub fn read(&self, to: &mut [u8]) -> Result<(), DeviceError> {
        match &self.place {
            Some((id, offset)) => self.lease.read(id, *offset, to),
            None => Ok(()),
        }
    }
}
