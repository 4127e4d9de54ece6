//! Messages of clients.

use tetris_store_layout::{Digest, ManifestId, ObjectId, ObjectRef};
use tetris_wire::{ProtocolError, Reader, Writer};

use super::description::Describe;
use super::types::{
    MAX_MANIFESTS, MAX_MODEL_OBJECTS, MAX_NUMBERS_PER_MESSAGE, MAX_OBJECTS_PER_MESSAGE,
};
use tetris_gpu_device::{DeviceUuid, MemoryKind};

const HELLO: u8 = 1;
const LIST_DEVICES: u8 = 2;
const ACQUIRE: u8 = 3;
const OBJECTS: u8 = 4;
const ORDER: u8 = 5;
const TAKEN: u8 = 6;
const RELEASE: u8 = 7;
const STATUS: u8 = 8;
const DESCRIBE: u8 = 9;
const PREFETCH: u8 = 10;
const KEEP: u8 = 16;

/// Length of `Acquire` and `Prefetch`, for errors.
const ACQUIRE_BYTES: &str = "30, or 26 and 32 for each of 1 to 16 manifests";

/// Identification of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelNamed {
    /// By its objects, which follow: their number, at most [`MAX_MODEL_OBJECTS`].
    Objects(u32),
    /// By the store's manifests of its files, 1 to [`MAX_MANIFESTS`].
    Manifests(Vec<ManifestId>),
}

/// A request for a model on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// The device; with `None` the server chooses.
    pub on: Option<DeviceUuid>,
    /// Maximum wait of the client for room, in milliseconds. 0: no wait.
    pub wait_ms: u32,
    /// Number of indexes of objects that follow, in order of access; at most the number of objects.
    pub order: u32,
    /// The model.
    pub model: ModelNamed,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// The first message of every client.
    Hello {
        /// The client's kind of memory.
        memory: MemoryKind,
        /// Its process id in its own PID namespace, for people; nothing depends on it.
        pid: u32,
    },
    /// Requests the list of devices.
    ListDevices,
    /// Requests a model on a device. The announced `Objects` and then `Order` follow.
    Acquire(Acquire),
    /// Objects of the model, in the order of the file.
    Objects(Vec<ObjectRef>),
    /// Indexes of objects in order of access.
    Order(Vec<u32>),
    /// The client has imported the chunks of the last message.
    Taken,
    /// The client has unmapped the model, or no longer waits for it.
    Release,
    /// Requests the server's status.
    Status,
    /// Requests the state of a device, and of models that the client names.
    Describe(Describe),
    /// Requests that a model is on a device, without its memory. The announced `Objects` and then
    /// `Order` follow.
    Prefetch(Acquire),
    /// Requests that a prefix of the held model stays on the device after the client has left.
    Keep {
        /// Time to the first token with the whole model on the device, in microseconds; 0: the
        /// client has not measured it.
        ttft_us: u64,
        /// Limit of the prefix in bytes; 0: no prefix is kept any more.
        most_bytes: u64,
    },
}

impl Request {
    /// Encodes the message as a whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello { memory, pid } => Writer::new(HELLO).u8(memory.code()).u32(*pid).end(),
            Self::ListDevices => Writer::new(LIST_DEVICES).end(),
            Self::Acquire(acquire) => acquire.encode(ACQUIRE),
            Self::Objects(objects) => {
                let entry = |to: Writer, object: &ObjectRef| {
                    to.bytes(&object.id.0.0).u32(object.crc).u64(object.len)
                };
                Writer::new(OBJECTS).list(objects, entry).end()
            }
            Self::Order(order) => {
                let entry = |to: Writer, index: &u32| to.u32(*index);
                Writer::new(ORDER).list(order, entry).end()
            }
            Self::Taken => Writer::new(TAKEN).end(),
            Self::Release => Writer::new(RELEASE).end(),
            Self::Status => Writer::new(STATUS).end(),
            Self::Describe(describe) => describe.encode(DESCRIBE),
            Self::Prefetch(acquire) => acquire.encode(PREFETCH),
            Self::Keep {
                ttft_us,
                most_bytes,
            } => Writer::new(KEEP).u64(*ttft_us).u64(*most_bytes).end(),
        }
    }

    /// Decodes a payload.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] if it is not a message of this kind.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, ProtocolError> {
        let reader = |expected| Reader::new(kind, payload, expected);
        match kind {
            HELLO => {
                let mut from = reader("5");
                let (code, pid) = (from.u8()?, from.u32()?);
                let memory = MemoryKind::from_code(code);
                let memory = memory.ok_or_else(|| from.value("1 to 3", code.into()))?;
                from.end(Self::Hello { memory, pid })
            }
            LIST_DEVICES => reader("0").end(Self::ListDevices),
            ACQUIRE => Acquire::decode(reader(ACQUIRE_BYTES)).map(Self::Acquire),
            OBJECTS => {
                let entries = reader("44 for each of 1 to 1024 objects")
                    .list(MAX_OBJECTS_PER_MESSAGE, object)?;
                Ok(Self::Objects(entries))
            }
            ORDER => {
                let entries = reader("4 for each of 1 to 8192 indexes")
                    .list(MAX_NUMBERS_PER_MESSAGE, Reader::u32)?;
                Ok(Self::Order(entries))
            }
            TAKEN => reader("0").end(Self::Taken),
            RELEASE => reader("0").end(Self::Release),
            STATUS => reader("0").end(Self::Status),
            DESCRIBE => Describe::decode(reader("20 and 32 for each of up to 1024 models"))
                .map(Self::Describe),
            PREFETCH => Acquire::decode(reader(ACQUIRE_BYTES)).map(Self::Prefetch),
            KEEP => {
                let mut from = reader("16");
                let (ttft_us, most_bytes) = (from.u64()?, from.u64()?);
                from.end(Self::Keep {
                    ttft_us,
                    most_bytes,
                })
            }
            kind => Err(ProtocolError::UnknownKind(kind)),
        }
    }
}

fn object(from: &mut Reader<'_>) -> Result<ObjectRef, ProtocolError> {
    Ok(ObjectRef {
        id: ObjectId(Digest(from.bytes()?)),
        crc: from.u32()?,
        len: from.u64()?,
    })
}

impl Acquire {
    fn encode(&self, kind: u8) -> Vec<u8> {
        let to = Writer::new(kind);
        let to = to.u8(self.on.is_some().into());
        let to = to.bytes(&self.on.map_or([0; 16], |uuid| uuid.0));
        let to = to.u32(self.wait_ms).u32(self.order);
        match &self.model {
            ModelNamed::Objects(count) => to.u8(1).u32(*count).end(),
            ModelNamed::Manifests(ids) => {
                let entry = |to: Writer, id: &ManifestId| to.bytes(&id.0.0);
                to.u8(2).list(ids, entry).end()
            }
        }
    }

    fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        let (chosen, uuid) = (from.u8()?, DeviceUuid(from.bytes()?));
        let on = match chosen {
            0 if uuid.0 == [0; 16] => None,
            1 => Some(uuid),
            other => return Err(from.value("1 and an identity, or 0 and zeros", other.into())),
        };
        let (wait_ms, order) = (from.u32()?, from.u32()?);
        let model = match from.u8()? {
            1 => {
                let count = from.u32()?;
                if !(1..=MAX_MODEL_OBJECTS).contains(&count) {
                    return Err(from.value("1 to 16384 objects", count.into()));
                }
                ModelNamed::Objects(count)
            }
            2 => {
                let id = |from: &mut Reader<'_>| Ok(ManifestId(Digest(from.bytes()?)));
                ModelNamed::Manifests(from.list(MAX_MANIFESTS, id)?)
            }
            other => return Err(from.value("1 or 2", other.into())),
        };
        from.end(Self {
            on,
            wait_ms,
            order,
            model,
        })
    }
}
