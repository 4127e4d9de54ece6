//! Many processes that load and drop models in a store that is too small for them, while they, the node's daemon and
//! collectors are killed at random.

mod account;
mod arena;
mod daemon;
mod events;
mod models;

pub use arena::Arena;
pub use events::{Event, EventLog, Tally, What};
pub use models::{KnownModel, unique_bytes, write_models};
