//! Passes over real stores on tmpfs, at moments of the test's choosing.

mod bad_input;
pub mod fixture;
mod freeing;
mod keeping;
mod pages;
mod record_memory;
mod record_shares;
mod references;
mod room;
mod tenants;
mod warm;
