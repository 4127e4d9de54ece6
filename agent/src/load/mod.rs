//! The load of one file.
//!
//! [`flow`](LoadContext::load_source) decides the steps: recognize the file and attach its objects,
//! or ask the node daemon's broker, or read, hash and publish it. The other modules are the steps.

mod attach;
mod broker;
mod cold_load;
mod complete;
mod context;
mod flow;
#[cfg(feature = "gpu")]
mod known;
mod make_room;
mod manifest;
mod memory;
mod private_load;
mod publish_missing;
mod read_once;
mod read_private;
mod recognize;
mod retry;
mod run_pipeline;

pub(crate) use context::LoadContext;
#[cfg(feature = "gpu")]
pub(crate) use recognize::KnownFile;
pub use recognize::bound;
