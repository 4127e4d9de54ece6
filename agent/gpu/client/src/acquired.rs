//! A model in device memory, mapped in this process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_store_layout::ObjectId;

use super::chunks::Chunks;
use super::error::unexpected;
use super::events::Events;
use super::mapped::{End, Mappings};
use super::{Arrivals, ClientError};
use tetris_gpu_device::{DeviceMemory, StreamHandle};
use tetris_gpu_protocol::{Kept, PlaceEntry};

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

/// Longest time that the driver takes to map a chunk: it needs a fraction of a millisecond.
const LONGEST_MAPPING: Duration = Duration::from_mins(1);

/// A model in device memory. This process maps it, and the server holds it, until this value is
/// dropped. It may still be being mapped, and its bytes arriving.
#[derive(Debug)]
pub struct Acquired<D: DeviceMemory> {
    device: Arc<D>,
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
        chunks: Chunks<D>,
        places: &[PlaceEntry],
        events: Events,
    ) -> Result<Self, ClientError> {
        let (mut objects, mut index) = (Vec::new(), BTreeMap::new());
        let device = Arc::clone(chunks.device());
        let mappings = Mappings::new(chunks, events);
        for (at, place) in places.iter().enumerate() {
            let chunk = place.chunk as usize;
            let end = place.offset.checked_add(place.len);
            let begin = mappings.chunks().and_then(|chunks| chunks.place(chunk));
            let begin = begin.filter(|(_, bytes)| end.is_some_and(|end| end <= *bytes));
            let (begin, _) = begin.ok_or_else(|| unexpected("places inside the chunks"))?;
            let (id, len) = (place.object, place.len);
            let address = begin + place.offset;
            objects.push(OnDevice { id, address, len });
            index.insert(id, (at, chunk, place.offset));
        }
        Ok(Self {
            device,
            mappings,
            objects,
            index,
        })
    }

    /// The device.
    pub fn device(&self) -> &Arc<D> {
        &self.device
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

    /// The mapping of an object and the object's offset there in bytes, for kernels. Waits until it is mapped.
    pub fn mapping(&self, id: &ObjectId) -> Result<(&D::Mapping, u64), ClientError> {
        let (_, chunk, offset) = self.find(id)?;
        self.wait_mapped(id)?;
        let chunks = self.mappings.chunks();
        let mapping = chunks.and_then(|chunks| chunks.get(chunk));
        let mapping = mapping.ok_or(ClientError::NoObject(*id))?;
        Ok((mapping, offset))
    }

    /// Waits until an object is mapped: from then on a kernel may be queued that reads its addresses.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if it could not be mapped.
    pub fn wait_mapped(&self, id: &ObjectId) -> Result<(), ClientError> {
        let (_, chunk, _) = self.find(id)?;
        if self.is_mapped(Some(chunk), LONGEST_MAPPING)? {
            return Ok(());
        }
        Err(ClientError::TimedOut {
            expected: "memory to be mapped",
            limit: LONGEST_MAPPING,
        })
    }

    fn is_mapped(&self, chunk: Option<usize>, limit: Duration) -> Result<bool, ClientError> {
        let chunks = self.mappings.chunks();
        chunks.map_or(Ok(true), |chunks| chunks.wait(chunk, limit))
    }

    fn find(&self, id: &ObjectId) -> Result<(usize, usize, u64), ClientError> {
        let at = self.index.get(id).copied();
        at.ok_or(ClientError::NoObject(*id))
    }

    /// Length of the device memory mapped for the model, in bytes. The memory is shared, and can
    /// contain other objects of the tenant.
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings.chunks().map_or(0, Chunks::bytes)
    }

    /// Waits at most `limit` until an object has arrived.
    pub fn wait(&self, id: &ObjectId, limit: Duration) -> Result<(), ClientError> {
        let (at, chunk, _) = self.find(id)?;
        self.arrived(Some((at, chunk)), "an object to arrive", limit)
    }

    /// Waits at most `limit` until the whole model has arrived.
    pub fn wait_all(&self, limit: Duration) -> Result<(), ClientError> {
        self.arrived(None, "the model to arrive", limit)
    }

    /// Returns true if an object has arrived. Does not wait.
    pub fn is_ready(&self, id: &ObjectId) -> Result<bool, ClientError> {
        let (at, chunk, _) = self.find(id)?;
        let arrived = self.mappings.events().wait(Some(at), Duration::ZERO)?;
        Ok(arrived && self.is_mapped(Some(chunk), Duration::ZERO)?)
    }

    /// Waits for an object and its chunk, or for all.
    fn arrived(
        &self,
        of: Option<(usize, usize)>,
        expected: &'static str,
        limit: Duration,
    ) -> Result<(), ClientError> {
        let begun = Instant::now();
        let (at, chunk) = (of.map(|(at, _)| at), of.map(|(_, chunk)| chunk));
        let arrived = self.mappings.events().wait(at, limit)?;
        if arrived && self.is_mapped(chunk, limit.saturating_sub(begun.elapsed()))? {
            return Ok(());
        }
        Err(ClientError::TimedOut { expected, limit })
    }

    /// Waits of a consumer on its own streams, each at most `limit`.
    pub fn arrivals(&self, limit: Duration) -> Arrivals {
        Arrivals::new(Arc::clone(self.mappings.events()), limit)
    }

    /// A step of a simulated stream ([`HostQueue`](tetris_gpu_device::host::HostQueue)) that waits for an
    /// object. Steps after it have the object's bytes if [`Arrivals::check`] succeeds afterwards.
    pub fn wait_step(
        &self,
        id: &ObjectId,
        arrivals: &Arrivals,
    ) -> Result<impl FnOnce() + Send + 'static, ClientError> {
        let (at, ..) = self.find(id)?;
        Ok(arrivals.step(at))
    }

    /// Has a stream of another library wait for an object, without a wait of the host for more than its
    /// mapping. Work queued on the stream later has the object's bytes if [`Arrivals::check`] succeeds
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the device has no such waits (the simulated one), or the driver refuses.
    pub fn wait_on_stream(
        &self,
        id: &ObjectId,
        stream: StreamHandle,
        arrivals: &Arrivals,
    ) -> Result<(), ClientError> {
        self.wait_mapped(id)?;
        let step = self.wait_step(id, arrivals)?;
        Ok(self.device().queue_wait(stream, Box::new(step))?)
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

    /// Asks the server to keep a prefix of the model on the device after its clients have left, as
    /// long as the server's budget allows. `ttft` is the measured time to the first token with the
    /// whole model on the device; zero: the server takes its own. `most_bytes` limits the prefix; 0
    /// ends it.
    ///
    /// A server before this message hangs up. So a program that needs the model asks over another
    /// connection.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server does not answer in time, or hangs up.
    pub fn keep(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, ClientError> {
        let ttft_us = u64::try_from(ttft.as_micros()).unwrap_or(u64::MAX);
        self.mappings.events().keep(ttft_us, most_bytes)
    }

    /// Returns true if the server, by its latest message, still holds the model for this client.
    /// Does not wait.
    pub fn is_held(&self) -> bool {
        let failed = self.mappings.chunks().is_some_and(Chunks::has_failed);
        !failed && self.mappings.events().is_alive()
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
