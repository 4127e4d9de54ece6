//! Replay: comparison of reclaim policies on traces, for the choice of the default.
//!
//! Pure and driven by events: [`catalog`] generates models in families that share tensors, and
//! [`trace`] generates requests for them. [`simulate`] runs one policy on one trace against a store
//! of a given size. [`compare`] runs all of them and finds the right default by a criterion. All
//! results follow from seeds.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod catalog;
pub mod compare;
pub mod simulate;
pub mod trace;
