//! The cold tier of the daemon: models on a local disk, kept and restored by a thread.

mod config;
mod orders;
mod thread;

pub use config::ColdConfig;
pub use orders::{ColdOrders, RestoreStage, ServedStore};
pub use thread::{ColdObserver, ColdThread, MakeStoreRoom};
