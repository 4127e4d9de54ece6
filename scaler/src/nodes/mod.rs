//! Resources of nodes from the API server, and their tensors from their daemons.
//!
//! **Flow.** [`Poller`] fetches `/inventory/objects` from each node's daemon over TLS, with bounded
//! concurrency, the tag of the last page, and a token that is good for that daemon alone
//! ([`bound_tls`](tetris_service_kit::bound_tls)). At the end of a round it applies the changes to one
//! [`Inventory`](tetris_scaler_core::Inventory).
//!
//! **Guarantees.** Answers are bounded in size. A node counts as having no tensors if it has no
//! daemon, or if the poller could not read its page for [`PollOptions::stale`]. The page of another
//! node is refused. A process at the address of a daemon that is gone gets nothing that another
//! daemon accepts.
//!
//! **Caveat.** Such a process can answer with its own page: instances are then placed worse.

mod error;
mod fetch;
mod gpu;
mod object_text;
mod page;
mod poller;
mod requests;
mod tokens;

pub use crate::quantity::{bytes, millis};
pub use error::{PageError, PollError};
pub use fetch::{Daemon, decompressed};
pub use gpu::NodeGpu;
pub use page::{KeptModel, Page, Room};
pub use poller::{Inventories, PollOptions, Poller};
pub use requests::{QuantityError, requests};
pub use tokens::Tokens;
