//! Sizes and times in configuration files, options and reports.
//!
//! - [`size`]: bytes, as `8GiB`, `512M` or `4096`
//! - [`duration`]: times, as `90s`, `1h 30m` or `90`

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

pub mod duration;
mod number;
pub mod size;
