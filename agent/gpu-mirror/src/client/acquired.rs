//! A model in device memory, mapped here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::ObjectId;

use super::ClientError;
use super::acquire::unexpected;
use super::events::Events;
use crate::memory::{DeviceMemory, Mapped};
use crate::protocol::PlaceEntry;

/// An object in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDevice {
    /// Which.
    pub id: ObjectId,
    /// The device address of its first byte, in this process.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A model in device memory, mapped here and held at the server as long as this lives.
#[derive(Debug)]
pub struct Acquired<D: DeviceMemory> {
    device: Arc<D>,
    /// Unmapped before the connection, in `events`, is closed.
    mappings: Vec<D::Mapping>,
    objects: Vec<OnDevice>,
    /// By object: index in `objects`, number of the mapping, offset there.
    index: BTreeMap<ObjectId, (usize, usize, u64)>,
    events: Events,
}

impl<D: DeviceMemory> Acquired<D> {
    /// Checks that every object lies in its chunk.
    pub(super) fn new(
        device: Arc<D>,
        mappings: Vec<D::Mapping>,
        places: &[PlaceEntry],
        events: Events,
    ) -> Result<Self, ClientError> {
        let (mut objects, mut index) = (Vec::new(), BTreeMap::new());
        for (at, place) in places.iter().enumerate() {
            let chunk = place.chunk as usize;
            let end = place.offset.checked_add(place.len);
            let mapping = mappings.get(chunk);
            let mapping = mapping.filter(|one| end.is_some_and(|end| end <= one.bytes()));
            let mapping = mapping.ok_or_else(|| unexpected("places inside the chunks"))?;
            let (id, len) = (place.object, place.len);
            let address = mapping.address() + place.offset;
            objects.push(OnDevice { id, address, len });
            index.insert(id, (at, chunk, place.offset));
        }
        Ok(Self {
            device,
            mappings,
            objects,
            index,
            events,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    /// The model's objects, in the order in which they arrive if all of them are copied.
    pub fn objects(&self) -> &[OnDevice] {
        &self.objects
    }

    /// Where an object is. Its bytes are there once it has arrived: see [`Self::wait`].
    pub fn object(&self, id: &ObjectId) -> Result<OnDevice, ClientError> {
        let (at, ..) = self.find(id)?;
        let object = self.objects.get(at).copied();
        object.ok_or(ClientError::NoObject(*id))
    }

    /// The mapping that an object lies in, and its offset there: for kernels.
    pub fn mapping(&self, id: &ObjectId) -> Result<(&D::Mapping, u64), ClientError> {
        let (_, chunk, offset) = self.find(id)?;
        let mapping = self.mappings.get(chunk);
        let mapping = mapping.ok_or(ClientError::NoObject(*id))?;
        Ok((mapping, offset))
    }

    fn find(&self, id: &ObjectId) -> Result<(usize, usize, u64), ClientError> {
        let found = self.index.get(id).copied();
        found.ok_or(ClientError::NoObject(*id))
    }

    /// Device memory that is mapped for the model, in bytes. It is shared, and more of the tenant's may lie in it.
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings.iter().map(Mapped::bytes).sum()
    }

    /// Waits until an object has arrived, for at most `limit`.
    pub fn wait(&self, id: &ObjectId, limit: Duration) -> Result<(), ClientError> {
        let (at, ..) = self.find(id)?;
        self.arrived(Some(at), "an object to arrive", limit)
    }

    /// Waits until the whole model has arrived, for at most `limit`.
    pub fn wait_all(&self, limit: Duration) -> Result<(), ClientError> {
        self.arrived(None, "the model to arrive", limit)
    }

    /// Whether an object has arrived. Does not wait.
    pub fn is_ready(&self, id: &ObjectId) -> Result<bool, ClientError> {
        let (at, ..) = self.find(id)?;
        self.events.wait(Some(at), Duration::ZERO)
    }

    fn arrived(
        &self,
        at: Option<usize>,
        expected: &'static str,
        limit: Duration,
    ) -> Result<(), ClientError> {
        if self.events.wait(at, limit)? {
            return Ok(());
        }
        Err(ClientError::TimedOut { expected, limit })
    }

    /// Copies an object's bytes from the device, once it has arrived, and waits for that: for checks.
    pub fn read(&self, id: &ObjectId, limit: Duration) -> Result<Vec<u8>, ClientError> {
        self.wait(id, limit)?;
        let (mapping, offset) = self.mapping(id)?;
        let mut bytes = vec![0; self.object(id)?.len as usize];
        self.device.read_back(mapping, offset, &mut bytes)?;
        Ok(bytes)
    }

    /// What dropping does, and waits until the server has noticed.
    pub fn release(self) -> Result<(), ClientError> {
        let Self {
            mappings, events, ..
        } = self;
        drop(mappings);
        events.release()
    }
}
