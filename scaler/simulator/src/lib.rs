//! Scaling and placement policies on generated traces.
//!
//! Event by event: requests come ([`trace`]), instances take them one by one or in batches that wait to be
//! filled, a scaler looks every few seconds and starts and releases instances ([`policy`]) on nodes with
//! tensor stores ([`cluster`]). [`simulate`] runs one policy on one [`Scenario`], [`compare()`] all of them on the four
//! applications of the paper, and [`paper`] has the paper's own figures to put beside them.
//!
//! Integers only and no clock but the one that is given: the same scenario has the same outcome
//! everywhere. What is the paper's and what is assumed is said in [`catalogue`], [`trace`], [`Platform`] and
//! [`paper`].

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod catalogue;
pub mod cluster;
mod compare;
mod engine;
mod error;
mod outcome;
pub mod paper;
pub mod policy;
mod rng;
mod scenario;
pub mod trace;

pub use compare::{Comparison, Grid, Run, compare};
pub use engine::simulate;
pub use error::SimulationError;
pub use outcome::{Outcome, Samples, Series};
pub use policy::Policy;
pub use scenario::{MAX_SECONDS, Platform, Scenario};
