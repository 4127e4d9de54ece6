//! Requests for a model, and mapping of the granted chunks.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_store_layout::{ManifestId, ObjectRef};
use tetris_wire::after;

use super::chunks::Chunks;
use super::error::unexpected;
use super::events::Events;
use super::{Acquired, Client, ClientError};
use tetris_gpu_device::{DeviceMemory, DeviceUuid, Exported, MemoryError};
use tetris_gpu_protocol::{
    Acquire, MAX_NUMBERS_PER_MESSAGE, MAX_OBJECTS_PER_MESSAGE, ModelNamed, PlaceEntry, Reply,
    Request,
};

/// A model, as the server's store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedModel {
    /// Its objects, 1 to 16,384.
    Objects(Vec<ObjectRef>),
    /// The manifests of its files, 1 to 16.
    Manifests(Vec<ManifestId>),
}

/// A request for a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The model.
    pub model: WantedModel,
    /// Indexes of its objects, over all manifests, in the order of their first use. The server
    /// copies them in that order.
    pub order: Vec<u32>,
    /// Maximum wait for room on the device. Zero: no wait.
    pub wait: Duration,
}

impl Wanted {
    /// A model in the order of its file, without waiting for room.
    pub fn new(model: WantedModel) -> Self {
        Self {
            model,
            order: Vec::new(),
            wait: Duration::ZERO,
        }
    }
}

/// Cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Number of bytes of device memory that the model needs; 0: the server is creating its chunks.
    pub need_bytes: u64,
    /// Number of bytes that the device can provide.
    pub free_bytes: u64,
}

/// A model that the server holds for this process.
pub(super) struct Admitted {
    pub device: DeviceUuid,
    /// Number of chunks that follow.
    chunks: usize,
    /// Number of places that follow.
    objects: usize,
    /// Number of bytes that are still to arrive.
    pub copy_bytes: u64,
}

/// A granted model whose chunks are coming.
struct Grant<D: DeviceMemory> {
    chunks: Chunks<D>,
    objects: usize,
    places: Vec<PlaceEntry>,
}

impl Client {
    /// Acquires a model on `device`, and has it mapped: its addresses are known when this returns, and an object can be
    /// read after [`Acquired::wait`]. Calls `waiting` while the server has no room for
    /// it, at most for `wanted.wait` plus this connection's timeout, and while the server is creating
    /// its chunks. The timeout counts time without a message of the server.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server refuses the model or does not answer in time, or if its chunks
    /// cannot be mapped.
    pub fn acquire<D: DeviceMemory>(
        self,
        device: Arc<D>,
        wanted: &Wanted,
        waiting: &mut dyn FnMut(Waiting),
    ) -> Result<Acquired<D>, ClientError> {
        let on = device.uuid()?;
        let mut device = Some(device);
        let mut opened = |_: DeviceUuid| {
            device.take().ok_or(MemoryError::Unsupported {
                what: "opening a device twice",
                next: "report this",
            })
        };
        self.acquire_on(Some(on), &mut opened, wanted, waiting)
    }

    /// Acquires a model on the device that the server chooses, as [`Self::acquire`] does. The
    /// server takes the device that has most of the model, and `open` opens it.
    pub fn acquire_anywhere<D: DeviceMemory>(
        self,
        open: &mut dyn FnMut(DeviceUuid) -> Result<Arc<D>, MemoryError>,
        wanted: &Wanted,
        waiting: &mut dyn FnMut(Waiting),
    ) -> Result<Acquired<D>, ClientError> {
        self.acquire_on(None, open, wanted, waiting)
    }

    fn acquire_on<D: DeviceMemory>(
        self,
        on: Option<DeviceUuid>,
        open: &mut dyn FnMut(DeviceUuid) -> Result<Arc<D>, MemoryError>,
        wanted: &Wanted,
        waiting: &mut dyn FnMut(Waiting),
    ) -> Result<Acquired<D>, ClientError> {
        self.request(on, wanted, Request::Acquire, after(self.timeout))?;
        let room_by = after(wanted.wait.saturating_add(self.timeout));
        let admitted = self.admitted(room_by, waiting)?;
        let mut grant = Grant {
            chunks: Chunks::new(open(admitted.device)?, admitted.chunks),
            objects: admitted.objects,
            places: Vec::new(),
        };
        self.map(&mut grant)?;
        self.place(&mut grant)?;
        let events = Events::new(self, grant.places.len());
        Acquired::new(grant.chunks, &grant.places, events)
    }

    /// Sends a request for a model.
    pub(super) fn request(
        &self,
        on: Option<DeviceUuid>,
        wanted: &Wanted,
        kind: fn(Acquire) -> Request,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let model = match &wanted.model {
            WantedModel::Objects(objects) => ModelNamed::Objects(objects.len() as u32),
            WantedModel::Manifests(ids) => ModelNamed::Manifests(ids.clone()),
        };
        let acquire = Acquire {
            on,
            wait_ms: u32::try_from(wanted.wait.as_millis()).unwrap_or(u32::MAX),
            order: wanted.order.len() as u32,
            model,
        };
        self.send(&kind(acquire), deadline)?;
        if let WantedModel::Objects(objects) = &wanted.model {
            for part in objects.chunks(MAX_OBJECTS_PER_MESSAGE) {
                self.send(&Request::Objects(part.to_vec()), deadline)?;
            }
        }
        for part in wanted.order.chunks(MAX_NUMBERS_PER_MESSAGE) {
            self.send(&Request::Order(part.to_vec()), deadline)?;
        }
        Ok(())
    }

    /// Waits until the server has admitted the model.
    pub(super) fn admitted(
        &self,
        room_by: Instant,
        waiting: &mut dyn FnMut(Waiting),
    ) -> Result<Admitted, ClientError> {
        const EXPECTED: &str = "the model to be granted";
        loop {
            // A server that lets the client wait is alive, and sends a message every second.
            match self.reply_with(after(self.timeout), EXPECTED)?.0 {
                Reply::Waiting {
                    need_bytes,
                    free_bytes,
                } => {
                    if need_bytes > 0 && Instant::now() >= room_by {
                        return Err(ClientError::TimedOut {
                            expected: EXPECTED,
                            limit: self.timeout,
                        });
                    }
                    waiting(Waiting {
                        need_bytes,
                        free_bytes,
                    });
                }
                Reply::Granted {
                    device,
                    chunks,
                    objects,
                    copy_bytes,
                } => {
                    return Ok(Admitted {
                        device,
                        chunks: chunks as usize,
                        objects: objects as usize,
                        copy_bytes,
                    });
                }
                _ => return Err(unexpected("Granted or Waiting")),
            }
        }
    }

    /// Takes all chunks.
    fn map<D: DeviceMemory>(&self, grant: &mut Grant<D>) -> Result<(), ClientError> {
        while grant.chunks.missing() > 0 {
            let deadline = after(self.timeout);
            let (reply, descriptors) = self.reply_with(deadline, "the model's chunks")?;
            let chunks = exported(reply, descriptors)?;
            if chunks.len() > grant.chunks.missing() {
                return Err(unexpected("as many chunks as announced"));
            }
            for (bytes, chunk) in chunks {
                grant.chunks.take(chunk, bytes)?;
            }
            self.send(&Request::Taken, after(self.timeout))?;
        }
        Ok(())
    }

    fn place<D: DeviceMemory>(&self, grant: &mut Grant<D>) -> Result<(), ClientError> {
        while grant.places.len() < grant.objects {
            match self
                .reply_with(after(self.timeout), "the objects' places")?
                .0
            {
                Reply::Places(places) => grant.places.extend(places),
                _ => return Err(unexpected("Places")),
            }
        }
        if grant.places.len() > grant.objects {
            return Err(unexpected("as many places as announced"));
        }
        Ok(())
    }
}

/// The chunks of a message, with their lengths in bytes.
fn exported(reply: Reply, files: Vec<OwnedFd>) -> Result<Vec<(u64, Exported)>, ClientError> {
    match reply {
        Reply::Chunks(lengths) if lengths.len() == files.len() => {
            let files = files.into_iter().map(Exported::Descriptor);
            Ok(lengths.into_iter().zip(files).collect())
        }
        Reply::Handles(handles) => {
            let handle = |(bytes, handle)| (bytes, Exported::Handle(handle));
            Ok(handles.into_iter().map(handle).collect())
        }
        _ => Err(unexpected("chunks with a descriptor or handle each")),
    }
}
