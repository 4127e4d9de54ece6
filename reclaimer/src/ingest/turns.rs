//! Turns of clients that make one derived object: one makes it while others wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tetris_store_layout::DerivedId;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Longest time that a client waits for its turn, and that it has it.
pub const MAX_TURN: Duration = Duration::from_mins(15);

/// Turns that clients have or wait for, by store and object. Each is of a connection, whose number is limited.
#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<TurnKey, Weak<AsyncMutex<()>>>>);

/// Name of a store, and a derived object of it.
type TurnKey = (String, DerivedId);

/// A turn. Dropping it lets the next client have it.
pub type BuildTurn = OwnedMutexGuard<()>;

impl Turns {
    pub(super) fn of(&self, store: &str, id: DerivedId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = turns.entry((store.to_owned(), id)).or_default();
        turn.upgrade().unwrap_or_else(|| {
            let new = Arc::default();
            *turn = Arc::downgrade(&new);
            new
        })
    }
}
