//! What is to be done.

use tetris_store_layout::ObjectId;

use super::{ClientId, DeviceId, ModelKey, TenantId};
use crate::arena::{ChunkId, NewChunk, Place};

/// A chunk that is to be released.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Released {
    /// Whose it was.
    pub tenant: TenantId,
    /// Its name in the tenant's arena on the device.
    pub chunk: ChunkId,
}

/// A model that had to go, wholly or as far as nobody else needs its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evicted {
    /// Whose it was.
    pub tenant: TenantId,
    /// Which.
    pub model: ModelKey,
}

/// What left a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Freed {
    /// Models that were evicted, in order.
    pub evicted: Vec<Evicted>,
    /// Idle objects that went to make a nearly empty chunk empty (B6); their models stay, and are copied in part next time.
    pub dropped: Vec<(TenantId, ObjectId)>,
    /// Chunks that are to be released now.
    pub released: Vec<Released>,
}

/// An object that is to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// The object.
    pub object: ObjectId,
    /// Where to.
    pub place: Place,
}

/// A model was admitted: its client holds it from now on. To be done in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// The device.
    pub device: DeviceId,
    /// What left it for this.
    pub freed: Freed,
    /// Chunks to create, after releasing those of `freed`.
    pub created: Vec<NewChunk>,
    /// Objects to copy, in the order in which they are wanted. The caller copies them.
    pub copies: Vec<Copy>,
    /// Objects that an earlier admission is copying: to be waited for.
    pub awaited: Vec<ObjectId>,
    /// Where all objects of the model are, in the order in which they are wanted.
    pub places: Vec<(ObjectId, Place)>,
}

/// Copies failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failed {
    /// Clients that held a model of which an object is missing now. They hold it no longer and are to be told.
    pub clients: Vec<(ClientId, ModelKey)>,
    /// What left the device with it.
    pub freed: Freed,
}

/// How a device is used, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// What the mirror may take.
    pub capacity_bytes: u64,
    /// Chunks.
    pub created_bytes: u64,
    /// Objects, rounded up to the alignment.
    pub live_bytes: u64,
    /// Objects that clients hold or that are being copied, not rounded.
    pub held_bytes: u64,
    /// Models of which something is on the device.
    pub models: usize,
    /// Models that clients hold.
    pub held_models: usize,
}
