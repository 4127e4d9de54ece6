//! What nodes have: room, from the API server, and tensors, from their daemons.
//!
//! **Flow.** [`Poller`] asks the daemon of each node for `/inventory/objects`, a bounded number at once, with the
//! tag of what it has. What changed goes into one [`Inventory`](tetris_scaler_core::Inventory) at the end of a
//! round.
//!
//! **Guarantees.** Answers are bounded in size. A node whose daemon cannot be read for [`PollOptions::stale`], or
//! that has none any more, has no tensors. A page of another node is refused.

mod error;
mod fetch;
mod page;
mod poller;
mod quantity;
mod requests;

pub use error::PollError;
pub use fetch::Daemon;
pub use page::{Page, Room};
pub use poller::{Inventories, PollOptions, Poller};
pub use quantity::{bytes, millis};
pub use requests::requests;
