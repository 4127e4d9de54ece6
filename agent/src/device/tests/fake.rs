//! Simulated objects of a device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tetris_gpu_client::{Arrivals, ClientError, OnDevice};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::StreamHandle;
use tetris_gpu_protocol::Kept;
use tetris_store_layout::{ObjectId, ObjectRef};

use crate::device::held::Held;

/// State of simulated objects, which a test sets and inspects.
#[derive(Debug, Clone, Default)]
pub struct Fate {
    pub arrived: Arc<AtomicBool>,
    pub lost: Arc<AtomicBool>,
    /// The end of each hold.
    pub ends: Arc<Mutex<Vec<&'static str>>>,
}

impl Fate {
    pub fn ends(&self) -> Vec<&'static str> {
        self.ends.lock().unwrap().clone()
    }
}

#[derive(Debug)]
pub struct Fake {
    kind: MemoryKind,
    objects: Vec<OnDevice>,
    fate: Fate,
    end: &'static str,
}

impl Fake {
    pub fn new(kind: MemoryKind, objects: &[ObjectRef], fate: &Fate) -> Self {
        let at = |object: &ObjectRef| OnDevice {
            id: object.id,
            address: 1 << 40,
            len: object.len,
        };
        Self {
            kind,
            objects: objects.iter().map(at).collect(),
            fate: fate.clone(),
            end: "dropped",
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.fate.ends.lock().unwrap().push(self.end);
    }
}

impl Held for Fake {
    fn kind(&self) -> MemoryKind {
        self.kind
    }

    fn objects(&self) -> &[OnDevice] {
        &self.objects
    }

    fn wait(&self, _: Option<&ObjectId>, _: Duration) -> Result<bool, ClientError> {
        Ok(self.fate.arrived.load(Ordering::Relaxed))
    }

    fn wait_mapped(&self, _: &ObjectId) -> Result<(), ClientError> {
        Ok(())
    }

    fn arrivals(&self) -> Option<Arrivals> {
        None
    }

    fn wait_on_stream(
        &self,
        id: &ObjectId,
        _: StreamHandle,
        _: &Arrivals,
    ) -> Result<(), ClientError> {
        Err(ClientError::NoObject(*id))
    }

    fn keep(&self, _: Duration, _: u64) -> Result<Kept, ClientError> {
        Ok(Kept::default())
    }

    fn is_held(&self) -> bool {
        !self.fate.lost.load(Ordering::Relaxed)
    }

    fn mapped_bytes(&self) -> u64 {
        2 << 20
    }

    fn read(&self, _: &ObjectId, _: u64, to: &mut [u8]) -> Result<(), ClientError> {
        to.fill(7);
        Ok(())
    }

    fn let_go(mut self: Box<Self>) {
        self.end = "hung up";
    }

    fn abandon(mut self: Box<Self>) {
        self.end = "abandoned";
    }
}
