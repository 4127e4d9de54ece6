//! Resources of nodes from the API server, and their tensors from their daemons.
//!
//! **Flow.** [`Poller`] fetches `/inventory/objects` from each node's daemon, with bounded
//! concurrency and the tag of the last page. At the end of a round it applies the changes to one
//! [`Inventory`](tetris_scaler_core::Inventory).
//!
//! **Guarantees.** Answers are bounded in size. A node counts as having no tensors if it has no
//! daemon, or if the poller could not read its page for [`PollOptions::stale`]. The page of another
//! node is refused.

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
