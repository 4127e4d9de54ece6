//! Jobs of the devices' threads.

use std::sync::Arc;

use super::source::Sources;
use crate::residency::{Copy, Released, TenantId};

/// A job of a worker.
#[derive(Debug)]
pub(super) enum Job {
    /// Releases empty chunks.
    Free(Vec<Released>),
    /// Copies objects.
    Load(Load),
    /// Drops chunks that only this tenant may get: it has left.
    Leave(TenantId),
    /// Checks if the device still works.
    Check,
}

/// Objects to copy.
#[derive(Debug)]
pub(super) struct Load {
    /// Its number among the transfers to the device.
    pub number: u64,
    pub tenant: TenantId,
    pub copies: Vec<Copy>,
    pub sources: Arc<Sources>,
}
