//! Conventions of all programs: values as people write them, and results as scripts read them.
//!
//! - [`size`]: bytes, as `8GiB`, `512M` or `4096`
//! - [`duration`]: times, as `90s`, `1h 30m` or `90`
//! - [`log_filter`]: the filter of a program's log, and the variables that it comes from
//! - [`cgroup`]: the memory limit of this process
//! - [`nearest`]: the name that a mistyped one probably stands for
//! - [`document`]: JSON documents of results and of errors
//! - [`exit`]: exit codes and their table in a command's help
//! - `text_table` (feature `tables`): tables for a terminal of 80 columns

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

pub mod cgroup;
pub mod document;
pub mod duration;
pub mod exit;
pub mod log_filter;
mod nearest;
mod number;
pub mod size;
#[cfg(feature = "tables")]
pub mod text_table;

pub use nearest::nearest;
