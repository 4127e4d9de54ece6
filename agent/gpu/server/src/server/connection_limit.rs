//! Limit of the number of connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tetris_wire::Connection;

use super::Limits;
use crate::residency::TenantId;

/// All connections of a server, and their limits.
///
/// With several tenants each may have as many connections as are free. So one tenant alone takes
/// half of them, two take a third each, and there are always some left for the next.
#[derive(Debug, Default)]
pub(super) struct ConnectionLimit(Mutex<Connections>);

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    open: BTreeMap<u64, Counted>,
    closed: bool,
    /// Number of served tenants.
    tenants: usize,
}

#[derive(Debug)]
struct Counted {
    user: (TenantId, u32),
    connection: Arc<Connection>,
}

/// A connection's share of the limit, freed on drop.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    limit: Arc<ConnectionLimit>,
    number: u64,
}

impl ConnectionLimit {
    /// Admits a connection; `None` if it is one too many.
    pub fn admit(
        self: &Arc<Self>,
        limits: &Limits,
        user: (TenantId, u32),
        connection: Arc<Connection>,
    ) -> Option<ConnectionPermit> {
        let mut connections = self.lock();
        let all = connections.open.values();
        let of_user = all.filter(|other| other.user == user).count();
        let all = connections.open.values();
        let of_tenant = all.filter(|other| other.user.0 == user.0).count();
        let free = limits.connections.saturating_sub(connections.open.len());
        let is_share = connections.tenants <= 1 || of_tenant < free;
        let refused = connections.closed || free == 0 || !is_share;
        if refused || of_user >= limits.connections_of_user {
            return None;
        }
        connections.next += 1;
        let number = connections.next;
        connections
            .open
            .insert(number, Counted { user, connection });
        let limit = Arc::clone(self);
        Some(ConnectionPermit { limit, number })
    }

    /// Sets the number of served tenants.
    pub fn set_tenants(&self, tenants: usize) {
        self.lock().tenants = tenants;
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// Admits no further connections, and hangs up on the existing ones, whose threads then end.
    pub fn close(&self) {
        let mut connections = self.lock();
        connections.closed = true;
        for counted in connections.open.values() {
            counted.connection.hang_up();
        }
    }

    /// Hangs up on a tenant's connections.
    pub fn hang_up(&self, tenant: TenantId) {
        let connections = self.lock();
        let all = connections.open.values();
        for counted in all.filter(|entry| entry.user.0 == tenant) {
            counted.connection.hang_up();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limit.lock().open.remove(&self.number);
    }
}
