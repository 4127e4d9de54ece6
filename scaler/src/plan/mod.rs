//! `tetris-scaler plan`: the operator's decision from files, on a laptop.
//!
//! **Flow.** Documents are read by kind and checked as the operator checks them; [`decide`](tetris_scaler_core::decide)
//! decides as if the loads had been the same for a whole window; the decision is printed, with what the published way and
//! instances that share nothing would take.
//!
//! **Caveats.** One decision, as the operator makes it in one pass: releases may take more than one. Taints and
//! affinities are not read.

mod args;
mod candidates;
mod compare;
mod documents;
mod error;
mod explain;
mod figures;
mod fit;
mod functions;
mod nodes;
mod page;
mod pods;
mod problem;
mod read;
mod report;
mod run;
mod solve;
mod text;

pub use args::{Format, LoadOverride, PlanArgs};
pub use error::PlanError;
pub use report::VERSION;
