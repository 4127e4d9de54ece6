//! Worker processes: the child's side, the parent's side, and the lines between them.

pub mod child;
pub mod handle;
pub mod pipes;
pub mod protocol;
pub mod python;
