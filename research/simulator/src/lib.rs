//! Simulator of scaling and placement policies on generated and on real traces.
//!
//! **Flow.** Requests arrive ([`trace`]), and instances execute them singly or in batches that wait
//! to fill. Every few seconds a scaler starts and releases instances ([`policy`]) on nodes with
//! tensor stores ([`cluster`]). [`simulate`] runs one policy on one [`Scenario`]. [`compare()`]
//! runs all policies on the four applications of the paper, [`sweep`] varies every invented input,
//! and [`paper`] has the paper's own figures for comparison. [`dispatch`] compares rules by which requests
//! go to instances, and [`gpu`] policies of requests to GPUs.
//!
//! **Guarantees.** All arithmetic is in integers, and the only clock is the caller's: the same
//! scenario has the same outcome everywhere. [`catalog`], [`trace`], [`Platform`] and [`paper`]
//! state which values are the paper's and which are assumed.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod against_dts;
pub mod catalog;
pub mod cluster;
mod column;
mod compare;
pub mod dispatch;
mod engine;
mod error;
pub mod evaluation;
mod events;
pub mod gpu;
mod outcome;
pub mod paper;
mod parallel;
mod platform;
pub mod policy;
mod policy_run;
mod recorded;
mod scenario;
mod server;
pub mod sweep;
pub mod trace;

pub use column::Column;
pub use compare::{Comparison, Grid, compare};
pub use engine::simulate;
pub use error::SimulationError;
pub use outcome::{BatchFill, QueueTimes, RunOutcome, Samples, Series};
pub use platform::Platform;
pub use policy::Policy;
pub use policy_run::PolicyRun;
pub use recorded::{RecordedLoads, TraceInput};
pub use scenario::{Assumptions, LoadSource, MAX_SECONDS, Scenario};
