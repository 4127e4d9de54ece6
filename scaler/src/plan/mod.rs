//! The command `plan`: the operator's decision from files, without a cluster.
//!
//! **Flow.** `plan` reads documents by kind and checks them as the operator does.
//! [`decide`](tetris_scaler_core::decide) decides as if the loads had been constant for a whole
//! window. `plan` prints the decision, and the cost of the published algorithm and of instances
//! that share nothing.
//!
//! **Caveats.** A plan is one decision, as the operator makes it in one pass: releases may take
//! several. It ignores taints and affinities.

mod args;
mod candidates;
mod compare;
mod documents;
mod error;
mod explain;
mod figures;
mod fit;
mod functions;
mod gpus;
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
