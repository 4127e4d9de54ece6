//! Turns of clients that make one derived object: one makes it, and the others ask again later.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_store_layout::DerivedId;

/// Longest time that a client has its turn.
pub const MAX_TURN: Duration = Duration::from_mins(15);

/// Turns that clients have. Each is of a connection, whose number is limited.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<HashSet<TurnKey>>>);

/// Name of a store, and a derived object of it.
type TurnKey = (String, DerivedId);

/// A turn. Dropping it lets the next client have it.
pub struct BuildTurn {
    turns: Turns,
    key: TurnKey,
}

impl Turns {
    /// The turn for an object; `None` while another client has it.
    pub(super) fn take(&self, store: &str, id: DerivedId) -> Option<BuildTurn> {
        let key = (store.to_owned(), id);
        let is_free = self.locked().insert(key.clone());
        is_free.then(|| BuildTurn {
            turns: self.clone(),
            key,
        })
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<TurnKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BuildTurn {
    fn drop(&mut self) {
        self.turns.locked().remove(&self.key);
    }
}
