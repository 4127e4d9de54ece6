//! Conventions of all programs: logs, results as scripts read them, exit codes, tables and memory limits.
//!
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
pub mod exit;
pub mod log_filter;
mod nearest;
#[cfg(feature = "tables")]
pub mod text_table;

pub use nearest::nearest;
