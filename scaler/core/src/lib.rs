//! Selection of configurations, their numbers and nodes (Tetris 3.2).
//!
//! Pure and deterministic: no I/O, no clock, no threads. All numbers in decisions are integers:
//! loads in millionths of a request per second ([`Rate`]), memory in bytes, CPU in millicores,
//! latencies in microseconds. Ties go by cost, then CPU, then order.
//!
//! - **One model:** [`dts`] is Algorithm 1 as published; [`solve`] solves the integer program (1)
//!   to (5) exactly, and never costs more.
//! - **Tensors:** an [`Inventory`] of the nodes' objects; [`Inventory::thetas`] is the similarity
//!   of a model and all nodes, and [`Spread::score`] weighs it against free resources.
//! - **Several models:** [`place`] selects configurations and nodes together, so that tensors count
//!   once per node; [`place_as_published`] is the paper's algorithm, for comparison.
//! - **Decision:** [`decide`] decides which instances to start, release and replace, and why, from
//!   the observed functions, instances and nodes. [`assign`] chooses the nodes of instances that
//!   exist and wait for one.
//! - **Load:** [`Arrivals`] are the requests of the last seconds; [`Arrivals::load`] is the load from them that instances
//!   must carry.
//! - **Scaling in:** [`scale_in`] releases the least loaded instances that the load does not need.
//!
//! **Guarantees.** Every selection and placement carries its load within its objective, as
//! profiled. A placement takes no more from a node than its free resources. Costs come with a lower
//! bound. An infeasible problem is refused with the necessary change: the smallest objective that a
//! configuration meets, or the shortage of the closest node.
//!
//! **Caveats.** Decisions trust the profile: it must include interference between instances on a
//! node. Placements are close to the lower bound in practice, but not proven optimal unless they
//! meet it.
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
//!         rate_millis: None,
//!         gpu: None,
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

mod arrivals;
mod configuration;
mod cost;
mod decision;
mod defaults;
mod dts;
mod error;
mod exact;
mod gpu;
mod inventory;
mod limits;
mod numbered;
mod placement;
mod profile;
mod rate;
mod scale_in;
mod score;
mod selection;

pub use arrivals::{Arrivals, Backlog, LOAD_MEAN_MS};
pub use configuration::{Configuration, ConfigurationSpec};
pub use cost::{MAX_ALPHA, MemoryTerm, Weights};
pub use decision::{
    Decision, FunctionDecision, FunctionModel, FunctionOutcome, FunctionView, InstanceView,
    NodeView, Phase, Place, Preference, Settings, Totals, View, Waiting, assign, decide,
    gpu_places, gpu_rooms,
};
pub use defaults::OperatorDefaults;
pub use dts::dts;
pub use error::FieldError;
pub use exact::{DEFAULT_STEPS, Solution, solve, solve_within};
pub use gpu::{
    GpuNeeds, GpuRoom, GpuShortage, GpuType, GpuTypeError, GpuView, MAX_GPU_TYPE, MAX_GPUS,
    WHOLE_GPU_PERMILLE, best_gpu,
};
pub use inventory::{
    Change, Inventory, InventoryFull, InventoryLimits, MAX_NODES, ModelError, ModelTensors,
    Similarity, Thetas,
};
pub use limits::{MAX_BATCH, MAX_CPU_MILLIS, MAX_MEMORY_BYTES, MAX_RATE_MILLIS};
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
