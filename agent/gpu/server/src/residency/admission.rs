//! Results of the manager: actions that the caller must take.

use tetris_store_layout::ObjectId;

use super::{ClientId, DeviceId, ModelKey, TenantId};
use crate::arena::{ChunkId, NewChunk, ObjectPlace};

/// A chunk that the caller must release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Released {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its number in the tenant's arena on the device.
    pub chunk: ChunkId,
}

/// An evicted model. Objects that other models share stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evicted {
    /// Its tenant.
    pub tenant: TenantId,
    /// The model.
    pub model: ModelKey,
}

/// Everything that left a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Freed {
    /// Evicted models, in order of eviction.
    pub evicted: Vec<Evicted>,
    /// Idle objects dropped to empty a nearly empty chunk (B6), or from the end of a kept prefix
    /// (B9). Their models stay, and the next admission copies the dropped objects again.
    pub dropped: Vec<(TenantId, ObjectId)>,
    /// Chunks that the caller must release now.
    pub released: Vec<Released>,
}

/// An object that the caller must copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// The object.
    pub object: ObjectId,
    /// Destination of the copy.
    pub place: ObjectPlace,
}

/// A model was admitted, and its client holds it from now on. The caller acts in the order of the
/// fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The device.
    pub device: DeviceId,
    /// Everything that left the device to make room.
    pub freed: Freed,
    /// Chunks that the caller must create, after it has released those of `freed`.
    pub created: Vec<NewChunk>,
    /// Objects that the caller must copy, in order of access.
    pub copies: Vec<Copy>,
    /// Objects that an earlier admission is still copying; the client waits for them.
    pub awaited: Vec<ObjectId>,
    /// Positions of all objects of the model, in order of access.
    pub places: Vec<(ObjectId, ObjectPlace)>,
}

/// Consequences of failed copies, or of damage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failed {
    /// Clients that held a model with a failed or damaged object. They no longer hold it, and the caller must
    /// tell them.
    pub clients: Vec<(ClientId, ModelKey)>,
    /// Everything that left the device as a result.
    pub freed: Freed,
}

/// Usage of a device, in bytes where not said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    /// Limit of the mirror's device memory.
    pub capacity_bytes: u64,
    /// Length of all chunks.
    pub created_bytes: u64,
    /// Of that, chunks that were released and whose memory processes keep.
    pub lingering_bytes: u64,
    /// Length of all objects, each rounded up to the alignment.
    pub live_bytes: u64,
    /// Length of the objects that clients hold or that are being copied, not rounded.
    pub held_bytes: u64,
    /// Length of the objects that templates keep, each once, not rounded.
    #[cfg_attr(feature = "serde", serde(default))]
    pub kept_bytes: u64,
    /// Number of models with at least one object on the device.
    pub models: usize,
    /// Number of models that clients hold.
    pub held_models: usize,
}
