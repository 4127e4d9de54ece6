//! A small API server: lists in pages, watches, creation, patches and deletion, within the
//! operator's rights.

mod answers;
mod objects;
mod patches;
mod rights;
mod server;
mod target;

pub use answers::{Asked, Fault, State};
pub use objects::{Objects, id};
pub use server::Api;
