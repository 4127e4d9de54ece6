//! Access to the operating system: measurements and settings.

pub mod broker;
pub mod cgroup;
pub mod disk;
pub mod ksm;
pub mod machine;
pub mod memory;
pub mod privacy;
pub mod store;
pub mod warm;
