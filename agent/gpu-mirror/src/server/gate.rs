//! Limit of the number of connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;
use crate::residency::TenantId;
use crate::wire::Wire;

/// All connections of a server.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Inside>);

#[derive(Debug, Default)]
struct Inside {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    closed: bool,
}

#[derive(Debug)]
struct Connection {
    user: (TenantId, u32),
    wire: Arc<Wire>,
}

/// A connection's place, freed on drop.
#[derive(Debug)]
pub(super) struct Place {
    gate: Arc<Gate>,
    number: u64,
}

impl Gate {
    /// Admits a connection; `None` if there is no place for it.
    pub fn enter(
        self: &Arc<Self>,
        limits: &Limits,
        user: (TenantId, u32),
        wire: Arc<Wire>,
    ) -> Option<Place> {
        let mut inside = self.lock();
        let all = inside.connections.values();
        let own = all.filter(|other| other.user == user).count();
        let full = inside.connections.len() >= limits.connections;
        if inside.closed || full || own >= limits.connections_of_user {
            return None;
        }
        inside.next += 1;
        let number = inside.next;
        let connection = Connection { user, wire };
        inside.connections.insert(number, connection);
        let gate = Arc::clone(self);
        Some(Place { gate, number })
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.lock().connections.len()
    }

    /// Admits no further connections, and hangs up on the existing ones, whose threads then end.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        for connection in inside.connections.values() {
            connection.wire.hang_up();
        }
    }

    /// Hangs up on a tenant's connections.
    pub fn hang_up(&self, tenant: TenantId) {
        let inside = self.lock();
        let own = inside.connections.values();
        for connection in own.filter(|one| one.user.0 == tenant) {
            connection.wire.hang_up();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.lock().connections.remove(&self.number);
    }
}
