//! Reasons for not admitting a model to a device.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use super::{DeviceId, TenantId};

/// The reason a model was not admitted. No state has changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The device does not exist.
    #[error("expected a device of this node, found {found:?}; leave the choice to the mirror")]
    NoDevice {
        /// The requested device, if the request chose one.
        found: Option<DeviceId>,
    },
    /// The model does not fit on an empty device.
    #[error(
        "expected a device of at least {need_bytes} bytes, found at most {capacity_bytes}; load the model in parts or on several devices"
    )]
    TooLarge {
        /// Number of bytes that the model needs on an empty device.
        need_bytes: u64,
        /// Capacity of the largest device, in bytes.
        capacity_bytes: u64,
    },
    /// The tenant's quota does not suffice.
    #[error(
        "{tenant:?} may hold {quota_bytes} bytes of device memory, of which {held_bytes} are in use, and the model needs {need_bytes} more; release models or raise the quota"
    )]
    Quota {
        /// The tenant.
        tenant: TenantId,
        /// Its quota on the device, in bytes.
        quota_bytes: u64,
        /// Number of bytes of its chunks that cannot be evicted.
        held_bytes: u64,
        /// Number of bytes of the additional chunks.
        need_bytes: u64,
    },
    /// Clients use the memory.
    #[error(
        "the model needs {need_bytes} bytes of device memory, {free_bytes} are available, {held_bytes} are used by clients; wait until one of them releases a model"
    )]
    InUse {
        /// Number of bytes of the additional chunks.
        need_bytes: u64,
        /// Number of bytes free after the eviction of every idle model.
        free_bytes: u64,
        /// Number of bytes of chunks with an object in use.
        held_bytes: u64,
    },
    /// Other programs use the memory.
    #[error(
        "the model needs {need_bytes} bytes of device memory, and the mirror can have {capacity_bytes} of its {limit_bytes} bytes at the moment, because other programs use the device; wait until one of them frees memory, or lower `device_bytes`"
    )]
    Taken {
        /// Number of bytes that the model needs.
        need_bytes: u64,
        /// Number of bytes that the mirror can have at the moment.
        capacity_bytes: u64,
        /// Number of bytes that it may have.
        limit_bytes: u64,
    },
    /// Other models of the tenant wait or are copied, and have too many objects mapped.
    #[error(
        "the model has {need} objects to copy, {free} more may be under way for the tenant; wait until other models are copied"
    )]
    Objects {
        /// Number of objects that are not on the device.
        need: usize,
        /// Number of objects that may be mapped now.
        free: usize,
    },
    /// The object is on the device with another length.
    #[error(
        "object {object} is on the device with {found} bytes, expected {expected}; read the manifest again"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length in the request, in bytes.
        expected: u64,
        /// Its length on the device, in bytes.
        found: u64,
    },
}

impl Refusal {
    /// Chooses the more useful of two devices' refusals: one that may pass, else the larger
    /// device's.
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

    /// Returns true if the request may succeed after a client has released a model, or another
    /// program its memory.
    pub fn may_wait(&self) -> bool {
        match self {
            Self::InUse { .. } | Self::Taken { .. } | Self::Objects { .. } => true,
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
