//! A tenant: a store, and the socket through which its clients come.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rustix::process::geteuid;
use tetris_store_layout::Store;

use super::ServerError;
use super::pool::Pool;
use crate::residency::{DeviceId, TenantId};

/// Whose clients come through a socket.
#[derive(Debug)]
pub(super) struct Tenant {
    pub id: TenantId,
    pub store: Arc<Store>,
    /// What of the store is mapped.
    pub pool: Arc<Pool>,
}

impl Tenant {
    /// A store's tenant. Nobody else may be able to cut the store's objects: a copy would read beyond their end, and the kernel
    /// kills for that. `registrable`: see [`Pool::new`].
    pub fn new(
        id: TenantId,
        store: Arc<Store>,
        registrable: BTreeSet<DeviceId>,
    ) -> Result<Self, ServerError> {
        let (found, expected) = (store.owner()?, geteuid().as_raw());
        if found != expected && found != 0 {
            return Err(ServerError::ForeignStore {
                path: Path::to_owned(store.root()),
                expected,
                found,
            });
        }
        let pool = Arc::new(Pool::new(Arc::clone(&store), registrable));
        Ok(Self { id, store, pool })
    }
}
