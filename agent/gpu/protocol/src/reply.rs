//! Messages of servers.

use tetris_store_layout::{Digest, ObjectId};
use tetris_wire::{FrameHeader, MAX_TEXT_BYTES, ProtocolError, Reader, Writer};

use super::description::{self, Description, LinkEntry, ModelEntry, TransferEntry};
use super::types::{
    DeviceEntry, DeviceStatus, ErrorCode, Kept, MAX_CHUNKS_PER_MESSAGE, MAX_DEVICES,
    MAX_NAME_BYTES, MAX_NUMBERS_PER_MESSAGE, MAX_PLACES_PER_MESSAGE, PlaceEntry, Reason, Refused,
    StatusReport,
};
use tetris_gpu_device::{DeviceUuid, HANDLE_BYTES, MemoryKind};

const HELLO_ACK: u8 = 32;
const DEVICES: u8 = 33;
const WAITING: u8 = 34;
const REFUSED: u8 = 35;
const GRANTED: u8 = 36;
const PLACES: u8 = 37;
const ARRIVED: u8 = 38;
const COMPLETE: u8 = 39;
const FAILED: u8 = 40;
const RELEASED: u8 = 41;
const STATUS_REPORT: u8 = 42;
const ERROR: u8 = 43;
const HANDLES: u8 = 44;
const DESCRIPTION: u8 = 45;
const LINKS: u8 = 46;
const TRANSFERS: u8 = 47;
const KEPT: u8 = 48;
const MODELS: u8 = 49;
const PROGRESS: u8 = 50;
const CHUNKS: u8 = 64;

/// Returns true for the frames that carry descriptors: kinds from 64 on.
pub fn carries_descriptors(header: FrameHeader) -> bool {
    header.kind >= CHUNKS
}

/// A message of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The first message of every server.
    HelloAck {
        /// The server's kind of memory.
        memory: MemoryKind,
        /// The server's version, for people.
        server: String,
    },
    /// Its devices, 1 to [`MAX_DEVICES`].
    Devices(Vec<DeviceEntry>),
    /// The model is waiting for room, or for its chunks to be created. Repeated during the wait.
    Waiting {
        /// Number of bytes of device memory that the model needs.
        need_bytes: u64,
        /// Number of bytes that the device can provide.
        free_bytes: u64,
    },
    /// The model was not admitted.
    Refused(Refused),
    /// The server holds the model for the client. Its chunks follow, as `Chunks` or `Handles`, each
    /// answered by `Taken`; then `Places`; then `Arrived` as objects arrive, and `Complete`.
    Granted {
        /// The model's device.
        device: DeviceUuid,
        /// Number of chunks that follow.
        chunks: u32,
        /// Number of places that follow.
        objects: u32,
        /// Number of bytes that are still to arrive.
        copy_bytes: u64,
    },
    /// Positions of objects, in order of access.
    Places(Vec<PlaceEntry>),
    /// Indexes of places whose objects have arrived.
    Arrived(Vec<u32>),
    /// Every object has arrived.
    Complete,
    /// The model could not be copied, and the server no longer holds it for the client.
    Failed {
        /// The reason, for programs.
        reason: Reason,
        /// The reason, for people; at most [`MAX_TEXT_BYTES`].
        text: String,
    },
    /// The server no longer holds the model for the client.
    Released,
    /// The server's status.
    StatusReport(StatusReport),
    /// A message was invalid; the server hangs up.
    Error {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people; at most [`MAX_TEXT_BYTES`].
        text: String,
    },
    /// The prefix of the held model that stays on the device.
    Kept(Kept),
    /// Chunks as legacy IPC handles: lengths in bytes and handles, 1 to [`MAX_CHUNKS_PER_MESSAGE`].
    Handles(Vec<(u64, [u8; HANDLE_BYTES])>),
    /// State of a device. `Links`, `Transfers` and `Models` follow, each if there are any.
    Description(Description),
    /// The device's links to others.
    Links(Vec<LinkEntry>),
    /// Transfers to the device.
    Transfers(Vec<TransferEntry>),
    /// The models that the client named.
    Models(Vec<ModelEntry>),
    /// Number of bytes of a prefetched model that have not arrived.
    Progress(u64),
    /// Chunks as descriptors: lengths in bytes, 1 to [`MAX_CHUNKS_PER_MESSAGE`]; one descriptor for
    /// each.
    Chunks(Vec<u64>),
}

impl Reply {
    /// Encodes the message as a whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::HelloAck { memory, server } => {
                let to = Writer::new(HELLO_ACK).u8(memory.code());
                to.text(server, MAX_TEXT_BYTES).end()
            }
            Self::Devices(devices) => Writer::new(DEVICES).list(devices, put_device).end(),
            Self::Waiting {
                need_bytes,
                free_bytes,
            } => Writer::new(WAITING).u64(*need_bytes).u64(*free_bytes).end(),
            Self::Refused(refused) => put_refused(refused),
            Self::Granted {
                device,
                chunks,
                objects,
                copy_bytes,
            } => put_granted(*device, *chunks, *objects, *copy_bytes),
            Self::Places(places) => Writer::new(PLACES).list(places, put_place).end(),
            Self::Arrived(indexes) => Writer::new(ARRIVED).list(indexes, put_index).end(),
            Self::Complete => Writer::new(COMPLETE).end(),
            Self::Kept(kept) => Writer::new(KEPT)
                .u64(kept.prefix_bytes)
                .u64(kept.bytes_per_sec)
                .end(),
            Self::Failed { reason, text } => put_reason(FAILED, reason.0, text),
            Self::Released => Writer::new(RELEASED).end(),
            Self::StatusReport(report) => put_status(report),
            Self::Error { code, text } => put_reason(ERROR, code.0, text),
            Self::Handles(handles) => Writer::new(HANDLES).list(handles, put_handle).end(),
            Self::Description(description) => description.encode(DESCRIPTION),
            Self::Links(links) => description::put_links(LINKS, links),
            Self::Transfers(transfers) => description::put_transfers(TRANSFERS, transfers),
            Self::Models(models) => description::put_models(MODELS, models),
            Self::Progress(bytes_left) => Writer::new(PROGRESS).u64(*bytes_left).end(),
            Self::Chunks(lengths) => Writer::new(CHUNKS).list(lengths, put_length).end(),
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
            HELLO_ACK => take_hello(reader("1 and a text of at most 512")),
            DEVICES => reader("45 and a name for each of 1 to 64 devices")
                .list(MAX_DEVICES, device)
                .map(Self::Devices),
            WAITING => take_waiting(reader("16")),
            REFUSED => take_refused(reader("14 and a text of at most 512")),
            GRANTED => take_granted(reader("32")),
            PLACES => reader("52 for each of 1 to 1024 places")
                .list(MAX_PLACES_PER_MESSAGE, place)
                .map(Self::Places),
            ARRIVED => reader("4 for each of 1 to 8192 indexes")
                .list(MAX_NUMBERS_PER_MESSAGE, Reader::u32)
                .map(Self::Arrived),
            KEPT => {
                let mut from = reader("16");
                let (prefix_bytes, bytes_per_sec) = (from.u64()?, from.u64()?);
                from.end(Self::Kept(Kept {
                    prefix_bytes,
                    bytes_per_sec,
                }))
            }
            COMPLETE => reader("0").end(Self::Complete),
            FAILED => take_failed(reader("2 and a text of at most 512")),
            RELEASED => reader("0").end(Self::Released),
            STATUS_REPORT => take_status(reader("12 and 56 for each of 1 to 64 devices")),
            ERROR => take_error(reader("2 and a text of at most 512")),
            HANDLES => reader("72 for each of 1 to 253 chunks")
                .list(MAX_CHUNKS_PER_MESSAGE, handle)
                .map(Self::Handles),
            DESCRIPTION => {
                Description::decode(reader("60 and a text of at most 64")).map(Self::Description)
            }
            LINKS => description::links(reader("24 for each of 1 to 64 links")).map(Self::Links),
            TRANSFERS => description::transfers(reader("40 for each of 1 to 1025 transfers"))
                .map(Self::Transfers),
            MODELS => {
                description::models(reader("49 for each of 1 to 1024 models")).map(Self::Models)
            }
            PROGRESS => {
                let mut from = reader("8");
                let bytes_left = from.u64()?;
                from.end(Self::Progress(bytes_left))
            }
            CHUNKS => reader("8 for each of 1 to 253 chunks")
                .list(MAX_CHUNKS_PER_MESSAGE, Reader::u64)
                .map(Self::Chunks),
            kind => Err(ProtocolError::UnknownKind(kind)),
        }
    }
}

fn put_index(to: Writer, index: &u32) -> Writer {
    to.u32(*index)
}

fn put_length(to: Writer, bytes: &u64) -> Writer {
    to.u64(*bytes)
}

fn put_handle(to: Writer, (bytes, handle): &(u64, [u8; HANDLE_BYTES])) -> Writer {
    to.u64(*bytes).bytes(handle)
}

fn handle(from: &mut Reader<'_>) -> Result<(u64, [u8; HANDLE_BYTES]), ProtocolError> {
    Ok((from.u64()?, from.bytes()?))
}

fn put_refused(refused: &Refused) -> Vec<u8> {
    let to = Writer::new(REFUSED).u16(refused.reason.0);
    let to = to.u64(refused.missing_bytes).u32(refused.missing_objects);
    to.text(&refused.text, MAX_TEXT_BYTES).end()
}

fn put_granted(device: DeviceUuid, chunks: u32, objects: u32, copy_bytes: u64) -> Vec<u8> {
    let to = Writer::new(GRANTED).bytes(&device.0).u32(chunks);
    to.u32(objects).u64(copy_bytes).end()
}

fn take_waiting(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let (need_bytes, free_bytes) = (from.u64()?, from.u64()?);
    from.end(Reply::Waiting {
        need_bytes,
        free_bytes,
    })
}

fn take_failed(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let (reason, text) = (Reason(from.u16()?), from.last_text()?);
    Ok(Reply::Failed { reason, text })
}

fn take_error(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let (code, text) = (ErrorCode(from.u16()?), from.last_text()?);
    Ok(Reply::Error { code, text })
}

fn put_reason(kind: u8, code: u16, text: &str) -> Vec<u8> {
    Writer::new(kind).u16(code).text(text, MAX_TEXT_BYTES).end()
}

fn put_device(to: Writer, device: &DeviceEntry) -> Writer {
    let end = device.name.floor_char_boundary(MAX_NAME_BYTES);
    let to = to.u32(device.number).bytes(&device.uuid.0);
    let to = to.u64(device.total_bytes).u64(device.free_bytes);
    let to = to.u64(device.capacity_bytes).u8(end as u8);
    to.text(&device.name, MAX_NAME_BYTES)
}

fn device(from: &mut Reader<'_>) -> Result<DeviceEntry, ProtocolError> {
    let (number, uuid) = (from.u32()?, DeviceUuid(from.bytes()?));
    let (total_bytes, free_bytes) = (from.u64()?, from.u64()?);
    let (capacity_bytes, len) = (from.u64()?, from.u8()?);
    if usize::from(len) > MAX_NAME_BYTES {
        return Err(from.value("a name of at most 64 bytes", len.into()));
    }
    Ok(DeviceEntry {
        number,
        uuid,
        total_bytes,
        free_bytes,
        capacity_bytes,
        name: from.text(len.into())?,
    })
}

fn put_place(to: Writer, place: &PlaceEntry) -> Writer {
    let to = to.bytes(&place.object.0.0).u32(place.chunk);
    to.u64(place.offset).u64(place.len)
}

fn place(from: &mut Reader<'_>) -> Result<PlaceEntry, ProtocolError> {
    Ok(PlaceEntry {
        object: ObjectId(Digest(from.bytes()?)),
        chunk: from.u32()?,
        offset: from.u64()?,
        len: from.u64()?,
    })
}

fn take_hello(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let code = from.u8()?;
    let memory = MemoryKind::from_code(code);
    let memory = memory.ok_or_else(|| from.value("1 to 3", code.into()))?;
    let server = from.last_text()?;
    Ok(Reply::HelloAck { memory, server })
}

fn take_refused(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    Ok(Reply::Refused(Refused {
        reason: Reason(from.u16()?),
        missing_bytes: from.u64()?,
        missing_objects: from.u32()?,
        text: from.last_text()?,
    }))
}

fn take_granted(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let granted = Reply::Granted {
        device: DeviceUuid(from.bytes()?),
        chunks: from.u32()?,
        objects: from.u32()?,
        copy_bytes: from.u64()?,
    };
    from.end(granted)
}

fn put_status(report: &StatusReport) -> Vec<u8> {
    let to = Writer::new(STATUS_REPORT).u32(report.connections);
    let to = to.u32(report.leases).u32(report.waiting);
    let entry = |to: Writer, device: &DeviceStatus| {
        let to = to.bytes(&device.uuid.0).u64(device.capacity_bytes);
        let to = to.u64(device.created_bytes).u64(device.live_bytes);
        let to = to.u64(device.held_bytes).u32(device.models);
        to.u32(device.held_models)
    };
    to.list(&report.devices, entry).end()
}

fn take_status(mut from: Reader<'_>) -> Result<Reply, ProtocolError> {
    let (connections, leases, waiting) = (from.u32()?, from.u32()?, from.u32()?);
    let entry = |from: &mut Reader<'_>| {
        Ok(DeviceStatus {
            uuid: DeviceUuid(from.bytes()?),
            capacity_bytes: from.u64()?,
            created_bytes: from.u64()?,
            live_bytes: from.u64()?,
            held_bytes: from.u64()?,
            models: from.u32()?,
            held_models: from.u32()?,
        })
    };
    Ok(Reply::StatusReport(StatusReport {
        connections,
        leases,
        waiting,
        devices: from.list(MAX_DEVICES, entry)?,
    }))
}
