//! A tenant: a store, and the socket of its clients.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::geteuid;
use tetris_store_layout::Store;

use super::ServerError;
use super::object_limit::ObjectLimit;
use super::pool::Pool;
use crate::residency::{DeviceId, TenantId};

/// The store behind a socket.
#[derive(Debug)]
pub(super) struct Tenant {
    pub id: TenantId,
    pub store: Arc<Store>,
    /// Mappings of the store.
    pub pool: Arc<Pool>,
    turn: Mutex<()>,
}

impl Tenant {
    /// Creates the tenant of a store. Only this user and root may be able to shrink the store's
    /// objects: a copy beyond the end of a file ends in SIGBUS. `registrable`, `objects`: see
    /// [`Pool::new`].
    pub fn new(
        id: TenantId,
        store: Arc<Store>,
        registrable: BTreeSet<DeviceId>,
        objects: &Arc<ObjectLimit>,
    ) -> Result<Self, ServerError> {
        let (found, expected) = (store.owner()?, geteuid().as_raw());
        if found != expected && found != 0 {
            return Err(ServerError::ForeignStore {
                path: Path::to_owned(store.root()),
                expected,
                found,
            });
        }
        let pool = Arc::new(Pool::new(id, Arc::clone(&store), registrable, objects));
        Ok(Self {
            id,
            store,
            pool,
            turn: Mutex::default(),
        })
    }

    /// Waits for the tenant's turn to compute, which one of its connections has at a time: many
    /// connections take no more of the processors than one. Held for work on messages, never while
    /// a client is waited for.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
