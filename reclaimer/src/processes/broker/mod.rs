//! The broker's part among the processes: what the others tell it, and what it shows of them.
//!
//! # Guarantees
//! - Every message has a limit of length. None makes the engine wait.
//! - Declarations stay in force while `cluster` is away, and are stale from its last word on.
//! - Only root has a store removed, and the reclaim protocol decides if it goes.

mod declared;
mod messages;
mod reports;
mod view;

pub(crate) use declared::Declared;
pub(crate) use messages::{MessageState, router};
pub(crate) use reports::ReceivedReports;
pub(crate) use view::ProcessesView;
