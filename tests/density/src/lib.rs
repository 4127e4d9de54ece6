//! Density benchmark: memory and start times of a group of inference processes, by the method with
//! which they load the same model.
//!
//! The binary `density` starts itself again as worker processes. Each loads its files with one
//! [`Method`](methods::Method), runs a matrix-vector pass over every tensor, and waits for further
//! requests. The parent reads the memory of the whole group while all workers are alive.
//!
//! ```text
//! args -> plan            (groups, settings, costs of the steps)
//!      -> run -> workload  (synthetic files, --model, or --base with --variants)
//!             -> measure   (groups, inference, budget) -> process (workers), system (/proc, cgroup, KSM)
//!             -> figures   (bars, papers)
//!             -> report    (text, JSON, HTML)
//! ```

pub mod args;
pub mod compute;
pub mod data;
pub mod error;
pub mod figures;
pub mod index;
pub mod interrupt;
pub mod mapping;
pub mod measure;
pub mod methods;
pub mod plan;
pub mod process;
pub mod report;
pub mod run;
pub mod synthetic;
pub mod system;
pub mod units;
pub mod workload;

pub use error::{Error, Result};
