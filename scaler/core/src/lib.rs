//! How many instances of which configuration, and on which nodes (Tetris 3.2).
//!
//! Pure and deterministic: no I/O, no clock, no threads. Numbers that decide are integers: loads in
//! millionths of a request per second ([`Rate`]), memory in bytes, CPU in millicores, latencies in
//! microseconds. Ties go by cost, then CPU, then order.
//!
//! - **One model:** [`dts`] is Algorithm 1 as published; [`solve`] solves the integer program (1) to (5)
//!   exactly, and never pays more.
//! - **Where tensors are:** an [`Inventory`] of what nodes have; [`Inventory::thetas`] is the similarity of a
//!   model and all nodes, [`Spread::score`] weighs it against room.
//! - **Several models:** [`place`] decides on configurations and nodes at once, so that what instances of a
//!   node share is paid once; [`place_as_published`] is the paper's way, for comparison.
//! - **What to do now:** [`decide`] says what to start, to release and to replace, from what is observed of functions,
//!   their instances and nodes, and why.
//! - **Scaling in:** [`scale_in`] releases the least loaded instances that the load does not need.
//!
//! **Guarantees.** Every selection and placement carries its load within its objective as profiled, and a
//! placement gives no more of a node than is free. Costs come with a lower bound. What is infeasible is
//! refused with what would have to change: the smallest objective that some configuration meets, or what
//! the node that comes closest lacks.
//!
//! **Caveats.** A profile is believed: interference between instances of a node is the profiler's to
//! include. Placements are close to the lower bound in practice and not proven best unless they meet it.
//!
//! ```
//! use tetris_scaler_core::{Configuration, ConfigurationSpec, Profile, Rate, Slo, Weights, dts, solve};
//!
//! let configuration = |cpu_millis, own_mib: u64, batch, concurrency, latency_ms: u64| {
//!     Configuration::try_new(ConfigurationSpec {
//!         cpu_millis,
//!         own_bytes: own_mib << 20,
//!         shared_bytes: 400 << 20,
//!         batch,
//!         concurrency,
//!         latency_us: latency_ms * 1_000,
//!     })
//! };
//! // 20 requests/s for 500 MiB, and 100 requests/s for 900 MiB.
//! let profile = Profile::try_new(vec![
//!     configuration(1_000, 100, 1, 1, 50)?,
//!     configuration(4_000, 500, 4, 2, 80)?,
//! ])?;
//! let (slo, load) = (Slo::try_from_us(200_000)?, Rate::from_rps(120));
//!
//! let greedy = dts(&profile, slo, load, Weights::PAPER)?;
//! assert_eq!(greedy.memory_bytes >> 20, 1_800); // two of the second: 200 requests/s
//! let exact = solve(&profile, slo, load, Weights::PAPER)?;
//! assert_eq!(exact.selection.memory_bytes >> 20, 1_400); // one of each: 120 requests/s
//! assert!(exact.optimal);
//!
//! let tight = solve(&profile, Slo::try_from_us(40_000)?, load, Weights::PAPER);
//! assert_eq!(
//!     tight.unwrap_err().to_string(),
//!     "no configuration meets an objective of 40000 us; the smallest that one meets is 50000 us"
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod configuration;
mod cost;
mod decision;
mod dts;
mod error;
mod exact;
mod inventory;
mod placement;
mod profile;
mod rate;
mod scale_in;
mod score;
mod selection;

pub use configuration::{
    Configuration, ConfigurationSpec, MAX_BATCH, MAX_CPU_MILLIS, MAX_MEMORY_BYTES,
};
pub use cost::{MAX_ALPHA, MemoryTerm, Weights};
pub use decision::{
    Decision, FunctionDecision, FunctionView, InstanceView, Model, NodeView, Outcome, Phase,
    Preference, Settings, Totals, View, decide,
};
pub use dts::dts;
pub use error::FieldError;
pub use exact::{DEFAULT_STEPS, Solution, solve, solve_within};
pub use inventory::{
    Change, Inventory, InventoryFull, InventoryLimits, MAX_NODES, ModelError, ModelTensors,
    Similarity, Thetas,
};
pub use placement::{
    DEFAULT_TRIALS, Demand, Hosted, MAX_INSTANCES, MAX_MODELS, Node, Placed, Placement,
    PlacementError, PlacementProblem, Shortage, place, place_as_published,
};
pub use profile::{MAX_CONFIGURATIONS, Profile, ProfileError};
pub use rate::{MAX_LATENCY_US, Rate, RateError, Slo};
pub use scale_in::{
    Because, LoadPeak, PeakError, Release, Running, ScaleInConfig, ScaleInError, ScaleInPolicy,
    scale_in,
};
pub use score::{Resources, Spread};
pub use selection::{Choice, Selection, SloTooTight, residual};
