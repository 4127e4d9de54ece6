//! Why a model is not on a device.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use super::{DeviceId, TenantId};

/// A model's description makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Too many objects, or none.
    #[error("expected a model of 1 to {most} objects, found {found}; load it file by file")]
    Parts {
        /// How many.
        found: usize,
        /// How many there may be.
        most: usize,
    },
    /// An order that names an object which is not there.
    #[error("expected an access order of indexes below {parts}, found {found}; record it again")]
    Order {
        /// The index.
        found: usize,
        /// How many objects there are.
        parts: usize,
    },
    /// An object without bytes, with too many, or with two different lengths.
    #[error(
        "expected one length above 0, and below 2^60 bytes for all objects, found {len} bytes for object {object}; read the manifest again"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length.
        len: u64,
    },
}

/// A model was not admitted. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such device.
    #[error("expected a device of this node, found {found:?}; leave the choice to the mirror")]
    NoDevice {
        /// The device that was asked for, if one was.
        found: Option<DeviceId>,
    },
    /// The model does not even fit an empty device.
    #[error(
        "expected a device of at least {need_bytes} bytes, found at most {capacity_bytes}; load the model in parts or on several devices"
    )]
    TooLarge {
        /// What the model takes on an empty device, in bytes.
        need_bytes: u64,
        /// What the largest device has.
        capacity_bytes: u64,
    },
    /// The tenant may not have as much.
    #[error(
        "{tenant:?} may hold {quota_bytes} bytes of device memory, of which {held_bytes} are in use, and the model needs {need_bytes} more; release models or raise the quota"
    )]
    Quota {
        /// The tenant.
        tenant: TenantId,
        /// Its quota on the device, in bytes.
        quota_bytes: u64,
        /// Bytes of its chunks that cannot be evicted.
        held_bytes: u64,
        /// Bytes of chunks that would have to be created.
        need_bytes: u64,
    },
    /// Others use the memory.
    #[error(
        "the model needs {need_bytes} bytes of device memory, {free_bytes} can be had, {held_bytes} are used by clients; wait until one of them releases a model"
    )]
    InUse {
        /// Bytes of chunks that would have to be created.
        need_bytes: u64,
        /// Bytes free after everything idle is evicted.
        free_bytes: u64,
        /// Bytes of chunks with something in use.
        held_bytes: u64,
    },
    /// The model was admitted as something else before.
    #[error(
        "object {object} is on the device with {found} bytes, expected {expected}; read the manifest again"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length as asked for.
        expected: u64,
        /// Its length on the device.
        found: u64,
    },
}

impl Refusal {
    /// Which of two devices' refusals tells more: one that may pass, else that of the larger device.
    pub(super) fn or(self, other: Self) -> Self {
        let larger = match (&self, &other) {
            (
                Self::TooLarge { capacity_bytes, .. },
                Self::TooLarge {
                    capacity_bytes: others,
                    ..
                },
            ) => capacity_bytes >= others,
            _ => false,
        };
        if self.may_wait() || larger {
            self
        } else {
            other
        }
    }

    /// Whether the same question may get another answer once a client has released something.
    pub fn may_wait(&self) -> bool {
        match self {
            Self::InUse { .. } => true,
            Self::Quota {
                quota_bytes,
                held_bytes,
                need_bytes,
                ..
            } => *held_bytes > 0 && need_bytes <= quota_bytes,
            Self::NoDevice { .. } | Self::TooLarge { .. } | Self::Length { .. } => false,
        }
    }
}
