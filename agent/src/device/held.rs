//! A model on any implementation of device memory.

use std::fmt::Debug;
use std::time::Duration;

use tetris_gpu_client::{Acquired, Arrivals, ClientError, OnDevice};
use tetris_gpu_device::StreamHandle;
use tetris_gpu_device::{DeviceMemory, MemoryKind};
use tetris_gpu_protocol::Kept;
use tetris_store_layout::ObjectId;

/// Longest wait of a stream for an object. Afterwards the stream goes on without it, and the check
/// says so.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// Objects in device memory that one connection holds.
pub(super) trait Held: Debug + Send + Sync {
    fn kind(&self) -> MemoryKind;
    fn objects(&self) -> &[OnDevice];
    /// Waits at most `limit` until an object has arrived, or all objects have; returns false at the
    /// limit.
    fn wait(&self, id: Option<&ObjectId>, limit: Duration) -> Result<bool, ClientError>;
    /// Waits until an object is mapped.
    fn wait_mapped(&self, id: &ObjectId) -> Result<(), ClientError>;
    /// Waits of this process's streams.
    fn arrivals(&self) -> Option<Arrivals>;
    /// Has a stream wait for an object.
    fn wait_on_stream(
        &self,
        id: &ObjectId,
        stream: StreamHandle,
        arrivals: &Arrivals,
    ) -> Result<(), ClientError>;
    /// Asks the server to keep a prefix of the objects on the device.
    fn keep(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, ClientError>;
    fn is_held(&self) -> bool;
    fn mapped_bytes(&self) -> u64;
    fn read(&self, id: &ObjectId, begin: u64, to: &mut [u8]) -> Result<(), ClientError>;
    /// Has another thread unmap the objects, and end the connection for all processes that share it.
    fn let_go(self: Box<Self>);
    /// Closes the connection in this process only, without calling the driver.
    fn abandon(self: Box<Self>);
}

impl<D: DeviceMemory + Debug> Held for Acquired<D> {
    fn kind(&self) -> MemoryKind {
        D::KIND
    }

    fn objects(&self) -> &[OnDevice] {
        self.objects()
    }

    fn wait(&self, id: Option<&ObjectId>, limit: Duration) -> Result<bool, ClientError> {
        let waited = match id {
            Some(id) => self.wait(id, limit),
            None => self.wait_all(limit),
        };
        match waited {
            Ok(()) => Ok(true),
            Err(ClientError::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait_mapped(&self, id: &ObjectId) -> Result<(), ClientError> {
        self.wait_mapped(id)
    }

    fn arrivals(&self) -> Option<Arrivals> {
        Some(self.arrivals(LONGEST_WAIT))
    }

    fn wait_on_stream(
        &self,
        id: &ObjectId,
        stream: StreamHandle,
        arrivals: &Arrivals,
    ) -> Result<(), ClientError> {
        self.wait_on_stream(id, stream, arrivals)
    }

    fn keep(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, ClientError> {
        self.keep(ttft, most_bytes)
    }

    fn is_held(&self) -> bool {
        self.is_held()
    }

    fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes()
    }

    fn read(&self, id: &ObjectId, begin: u64, to: &mut [u8]) -> Result<(), ClientError> {
        self.read_part(id, begin, to)
    }

    fn let_go(self: Box<Self>) {
        (*self).let_go();
    }

    fn abandon(self: Box<Self>) {
        (*self).abandon();
    }
}
