//! The finding of a check.

use tetris_store_layout::ObjectId;

use crate::residency::TenantId;

/// An object with other bytes on a device than its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged {
    pub tenant: TenantId,
    pub object: ObjectId,
}
