//! Profiler of model servers: measures each configuration for the scaler (Tetris 3.2).
//!
//! **Flow.** [`profile`] takes a grid of [`Setting`]s: CPU, batch size and concurrency. It skips
//! settings that the database has, or that measurements rule out ([`ruled_out`]). It starts each
//! other setting in its own cgroup and waits until the server is ready. Then clients send requests
//! over the Open Inference Protocol v2, as many at once as one batch per thread. Then it starts the
//! setting again under memory limits until one is enough. Objects that the instance maps from the
//! tensor store are the shared part.
//!
//! **Guarantees.** A finished [`Measurement`] is durable before the next begins. No process of an
//! instance outlives the profiler, even if the profiler is killed. The next profiler removes
//! cgroups that a killed one left.
//!
//! **Assumptions.** The machine has no other load. The server stays in the foreground, and in its
//! process group or cgroup.
//!
//! **Caveats.** Clients run on the same machine. Files already in the page cache are not charged to
//! an instance, as on a node that runs another instance of the same image.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cgroup;
pub mod cli;
mod command;
mod cpus;
mod database;
mod gpu;
mod instance;
mod latency;
mod load;
mod machine;
mod measure;
mod measurement;
mod model_profile;
mod oip;
mod plan;
mod processes;
mod session;
mod setting;
mod shared;

pub use cgroup::CgroupError;
pub use cpus::CpuError;
pub use database::{DatabaseError, ProfileDatabase, StoredProfile};
pub use gpu::{MeasurementOnGpu, ProfileGpu};
pub use instance::InstanceError;
pub use latency::{LatencyMicros, MIN_SAMPLES, Percentile};
pub use load::LoadError;
pub use machine::Machine;
pub use measure::MeasureError;
pub use measurement::Measurement;
pub use model_profile::{
    API_VERSION, KIND, MAX_LISTED_OBJECTS, Measured, Metadata, ModelProfileManifest,
    ModelProfileSpec, ProfiledConfiguration, ProfiledGpu, ProfiledGpuLoad, ProfiledObject,
    is_resource_name, resource_name,
};
pub use oip::{OipError, Protocol};
pub use plan::{RuledOut, SloBound, TOLERANCE_PERCENT, ruled_out};
pub use session::{
    Event, Fate, Listener, ProfileError, ProfileRequest, SessionOutcome, profile, stored,
};
pub use setting::{GridError, MAX_CLIENTS, MAX_SETTINGS, Setting, grid, parse_cpus};
pub use shared::SharedPart;
