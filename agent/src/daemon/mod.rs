//! Requests to the node daemon over the socket in the store (LAYOUT.md 11).
//!
//! The agent asks for room when the store is full. The daemon sees the whole node and knows its
//! policy, so its "no" holds; where no daemon answers, the agent reclaims by itself. An agent that
//! can only read the store passes its model files to the daemon, which publishes them, and bytes that
//! it made as sealed memory.

mod absence;
mod client;
mod connection;
mod error;
mod keeper;
mod room;
mod sealed;

pub(crate) use absence::Absence;
pub use client::{BuildTurn, DaemonClient, HeldInStore, RestoredModel, RoomMade};
pub use error::DaemonError;
pub use keeper::{KeeperNews, ModelKeeper, PassedMount};
pub(crate) use room::{Answers, Patience};
pub use sealed::sealed_memory;
