//! Cgroups of this process, versions 1 and 2.

mod limit;
mod mount;

pub use limit::memory_limit;
pub use mount::{Mount, own_path};
