//! Opening of scheduling gates that the operator leaves closed: the command `open-gates`.
//!
//! Its own process, with its own account, so that pods start while the operator is away.
//! Each replica opens a gate that it has seen closed for a fixed time, without narrowing the pod.
//! Replicas need no leader: the write names the version of the pod, so the second does nothing.

mod error;
mod keeper;
mod run;

pub use error::GatesError;
pub use keeper::{Closed, Keeper};
pub use run::run;
