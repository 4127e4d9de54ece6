//! A model in device memory, mapped in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::ObjectId;

use super::ClientError;
use super::error::unexpected;
use super::events::Events;
use super::mapped::{End, Mappings};
use crate::memory::{DeviceMemory, Mapped};
use crate::protocol::PlaceEntry;

/// An object in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDevice {
    /// The object.
    pub id: ObjectId,
    /// The device address of its first byte, in this process.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A model in device memory. This process maps it, and the server holds it, until this value is
/// dropped.
#[derive(Debug)]
pub struct Acquired<D: DeviceMemory> {
    /// With the connection, which closes after the memory is unmapped.
    mappings: Mappings<D>,
    objects: Vec<OnDevice>,
    /// For each object: its index in `objects`, the index of its mapping, and its offset there in
    /// bytes.
    index: BTreeMap<ObjectId, (usize, usize, u64)>,
}

impl<D: DeviceMemory> Acquired<D> {
    /// Checks that every object lies in its chunk.
    pub(super) fn new(
        device: Arc<D>,
        chunks: Vec<D::Mapping>,
        places: &[PlaceEntry],
        events: Events,
    ) -> Result<Self, ClientError> {
        let (mut objects, mut index) = (Vec::new(), BTreeMap::new());
        let mappings = Mappings::new(device, chunks, events);
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
            mappings,
            objects,
            index,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<D> {
        self.mappings.device()
    }

    /// The model's objects, in the order of their arrival if the server copies all of them.
    pub fn objects(&self) -> &[OnDevice] {
        &self.objects
    }

    /// Address of an object. Its bytes are valid once it has arrived: see [`Self::wait`].
    pub fn object(&self, id: &ObjectId) -> Result<OnDevice, ClientError> {
        let (at, ..) = self.find(id)?;
        let object = self.objects.get(at).copied();
        object.ok_or(ClientError::NoObject(*id))
    }

    /// The mapping of an object and the object's offset there in bytes, for kernels.
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

    /// Length of the device memory mapped for the model, in bytes. The memory is shared, and can
    /// contain other objects of the tenant.
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings.bytes()
    }

    /// Waits at most `limit` until an object has arrived.
    pub fn wait(&self, id: &ObjectId, limit: Duration) -> Result<(), ClientError> {
        let (at, ..) = self.find(id)?;
        self.arrived(Some(at), "an object to arrive", limit)
    }

    /// Waits at most `limit` until the whole model has arrived.
    pub fn wait_all(&self, limit: Duration) -> Result<(), ClientError> {
        self.arrived(None, "the model to arrive", limit)
    }

    /// Returns true if an object has arrived. Does not wait.
    pub fn is_ready(&self, id: &ObjectId) -> Result<bool, ClientError> {
        let (at, ..) = self.find(id)?;
        self.mappings.events().wait(Some(at), Duration::ZERO)
    }

    fn arrived(
        &self,
        at: Option<usize>,
        expected: &'static str,
        limit: Duration,
    ) -> Result<(), ClientError> {
        if self.mappings.events().wait(at, limit)? {
            return Ok(());
        }
        Err(ClientError::TimedOut { expected, limit })
    }

    /// Waits until an object has arrived, and copies its bytes from the device: for checks.
    pub fn read(&self, id: &ObjectId, limit: Duration) -> Result<Vec<u8>, ClientError> {
        self.wait(id, limit)?;
        let mut bytes = vec![0; self.object(id)?.len as usize];
        self.read_part(id, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Copies a part of an object from the device without waiting for the object: for checks.
    pub fn read_part(&self, id: &ObjectId, begin: u64, to: &mut [u8]) -> Result<(), ClientError> {
        let (mapping, offset) = self.mapping(id)?;
        let begin = offset.saturating_add(begin);
        Ok(self.device().read_back(mapping, begin, to)?)
    }

    /// Returns true if the server, by its latest message, still holds the model for this client.
    /// Does not wait.
    pub fn is_held(&self) -> bool {
        self.mappings.events().is_alive()
    }

    /// Releases the model like a drop, also if a child process has inherited the connection.
    pub fn hang_up(self) {
        self.mappings.end(End::HangUp);
    }

    /// Releases the model like [`Self::hang_up`], without a wait for the device: another thread
    /// unmaps the memory and ends the connection ([`settle_unmapping`](super::settle_unmapping)).
    pub fn let_go(self) {
        self.mappings.end(End::Aside);
    }

    /// Closes this process's end of the connection without calling the driver. For the child of a
    /// process that held the model: there the driver's calls fail. The memory stays mapped until
    /// this process ends.
    pub fn abandon(self) {
        self.mappings.abandon();
    }

    /// Releases the model like a drop, and waits for the server's confirmation.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the memory cannot be unmapped now (it stays held, and is unmapped when a
    /// capture of a graph has ended), or if the server does not confirm.
    pub fn release(self) -> Result<(), ClientError> {
        let events = Arc::clone(self.mappings.events());
        self.mappings.unmap()?;
        events.release()
    }
}
