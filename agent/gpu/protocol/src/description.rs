//! State of a device for those who schedule work on it: its links, its transfers, and the models that
//! the client names.
//!
//! A server reveals nothing of models that the client does not name. Who knows a model's key knows the
//! content of its objects already.

use tetris_store_layout::Digest;
use tetris_wire::{ProtocolError, Reader, Writer};

use super::types::{MAX_DEVICES, MAX_NAME_BYTES};
use crate::ModelKey;
use tetris_gpu_device::DeviceUuid;

/// Maximum number of models of a description, 49 bytes each.
pub const MAX_NAMED_MODELS: usize = 1024;

/// A request for the state of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    /// The device.
    pub device: DeviceUuid,
    /// Models that the client names, at most [`MAX_NAMED_MODELS`].
    pub models: Vec<ModelKey>,
}

/// State of a device. `Links`, `Transfers` and `Models` follow, each if there are any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The device.
    pub device: DeviceUuid,
    /// Present limit of the mirror's memory, in bytes.
    pub capacity_bytes: u64,
    /// Length of that memory in which no chunk is, in bytes.
    pub free_bytes: u64,
    /// Rate of the link from the host, in bytes per second; `None` if it is not known.
    pub bytes_per_second: Option<u64>,
    /// Length in bytes up to which a model is light.
    pub light_bytes: u64,
    /// Number of links that follow.
    pub links: u32,
    /// Number of transfers that follow.
    pub transfers: u32,
    /// Number of models that follow: those that the client named.
    pub models: u32,
    /// Name of the switch between the device and the host, at most [`MAX_NAME_BYTES`]. Devices at
    /// the same switch share its bandwidth. Empty if it is not known.
    pub switch: String,
}

/// A link to another device of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEntry {
    /// The device at the other end.
    pub to: DeviceUuid,
    /// Its rate in bytes per second; `None` if it is not known.
    pub bytes_per_second: Option<u64>,
}

/// A transfer to the device that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferEntry {
    /// The model, if the client named it; `None` for all transfers of other models together.
    pub model: Option<ModelKey>,
    /// Number of bytes that have not arrived.
    pub bytes_left: u64,
}

/// Presence of a model on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelState {
    /// Not on the device, or not all of it.
    Absent,
    /// On its way.
    Loading,
    /// All of it is on the device.
    Resident,
}

/// A model that the client named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelEntry {
    /// Its key.
    pub model: ModelKey,
    /// Its presence.
    pub state: ModelState,
    /// Length of its objects, in bytes; 0 if the device has none of it.
    pub bytes: u64,
    /// Length of those that are not on the device, in bytes; 0 if the device has none of it.
    pub bytes_left: u64,
}

impl ModelState {
    const fn code(self) -> u8 {
        match self {
            Self::Absent => 0,
            Self::Loading => 1,
            Self::Resident => 2,
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        match from.u8()? {
            0 => Ok(Self::Absent),
            1 => Ok(Self::Loading),
            2 => Ok(Self::Resident),
            other => Err(from.value("0 to 2", other.into())),
        }
    }
}

/// A key as bytes; zeros for none, since nothing hashes to them.
const NO_KEY: [u8; 32] = [0; 32];

fn key(from: &mut Reader<'_>) -> Result<ModelKey, ProtocolError> {
    Ok(ModelKey(Digest(from.bytes()?)))
}

fn put_key(to: Writer, key: &ModelKey) -> Writer {
    to.bytes(&key.0.0)
}

/// A rate that may be unknown: 0.
fn put_rate(to: Writer, rate: Option<u64>) -> Writer {
    to.u64(rate.unwrap_or(0))
}

fn rate(from: &mut Reader<'_>) -> Result<Option<u64>, ProtocolError> {
    Ok(Some(from.u64()?).filter(|rate| *rate > 0))
}

impl Describe {
    pub(super) fn encode(&self, kind: u8) -> Vec<u8> {
        let to = Writer::new(kind).bytes(&self.device.0);
        let to = to.u32(self.models.len() as u32);
        to.list(&self.models, put_key).end()
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        let (device, count) = (DeviceUuid(from.bytes()?), from.u32()?);
        let models = if count == 0 {
            from.end(Vec::new())?
        } else {
            from.list(MAX_NAMED_MODELS, key)?
        };
        if models.len() != count as usize {
            return Err(from.value("the number of models that follow", count.into()));
        }
        Ok(Self { device, models })
    }
}

impl Description {
    pub(super) fn encode(&self, kind: u8) -> Vec<u8> {
        let to = Writer::new(kind).bytes(&self.device.0);
        let to = to.u64(self.capacity_bytes).u64(self.free_bytes);
        let to = put_rate(to, self.bytes_per_second).u64(self.light_bytes);
        let to = to.u32(self.links).u32(self.transfers).u32(self.models);
        to.text(&self.switch, MAX_NAME_BYTES).end()
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        let device = DeviceUuid(from.bytes()?);
        let (capacity_bytes, free_bytes) = (from.u64()?, from.u64()?);
        let (bytes_per_second, light_bytes) = (rate(&mut from)?, from.u64()?);
        let (links, transfers, models) = (from.u32()?, from.u32()?, from.u32()?);
        let most = MAX_NAMED_MODELS as u32;
        if links > MAX_DEVICES as u32 || transfers > most + 1 || models > most {
            let most = links.max(transfers).max(models);
            return Err(from.value("at most 64 links, and 1024 models", most.into()));
        }
        Ok(Self {
            device,
            capacity_bytes,
            free_bytes,
            bytes_per_second,
            light_bytes,
            links,
            transfers,
            models,
            switch: from.last_text_within(MAX_NAME_BYTES)?,
        })
    }
}

pub(super) fn put_links(kind: u8, links: &[LinkEntry]) -> Vec<u8> {
    let entry =
        |to: Writer, link: &LinkEntry| put_rate(to.bytes(&link.to.0), link.bytes_per_second);
    Writer::new(kind).list(links, entry).end()
}

pub(super) fn links(mut from: Reader<'_>) -> Result<Vec<LinkEntry>, ProtocolError> {
    from.list(MAX_DEVICES, |from| {
        Ok(LinkEntry {
            to: DeviceUuid(from.bytes()?),
            bytes_per_second: rate(from)?,
        })
    })
}

pub(super) fn put_transfers(kind: u8, transfers: &[TransferEntry]) -> Vec<u8> {
    let entry = |to: Writer, transfer: &TransferEntry| {
        let key = transfer.model.map_or(NO_KEY, |model| model.0.0);
        to.bytes(&key).u64(transfer.bytes_left)
    };
    Writer::new(kind).list(transfers, entry).end()
}

pub(super) fn transfers(mut from: Reader<'_>) -> Result<Vec<TransferEntry>, ProtocolError> {
    from.list(MAX_NAMED_MODELS + 1, |from| {
        let (model, bytes_left) = (key(from)?, from.u64()?);
        Ok(TransferEntry {
            model: Some(model).filter(|model| model.0.0 != NO_KEY),
            bytes_left,
        })
    })
}

pub(super) fn put_models(kind: u8, models: &[ModelEntry]) -> Vec<u8> {
    let entry = |to: Writer, model: &ModelEntry| {
        let to = put_key(to, &model.model).u8(model.state.code());
        to.u64(model.bytes).u64(model.bytes_left)
    };
    Writer::new(kind).list(models, entry).end()
}

pub(super) fn models(mut from: Reader<'_>) -> Result<Vec<ModelEntry>, ProtocolError> {
    from.list(MAX_NAMED_MODELS, |from| {
        Ok(ModelEntry {
            model: key(from)?,
            state: ModelState::decode(from)?,
            bytes: from.u64()?,
            bytes_left: from.u64()?,
        })
    })
}
