//! Measures a model server per configuration: the profile that the scaler decides by (Tetris 3.2).
//!
//! **Flow.** [`profile`] takes a grid of [`Setting`]s (CPU, batch, concurrency). Each that the database does not
//! have, and that nothing measured rules out ([`ruled_out`]), is started in a cgroup of its own, waited for, and asked over the Open
//! Inference Protocol v2 by as many clients as it can have requests under way. Then it is started under memory limits until one
//! passes. What it maps of the tensor store is the part that instances share.
//!
//! **Guarantees.** A finished [`Measurement`] is durable before the next begins. However the profiler ends, no process of an instance
//! outlives it; cgroups that it left when it was killed are removed by the next one.
//!
//! **Assumptions.** Nothing else keeps the machine busy. The server stays in the foreground and in its process group or cgroup.
//!
//! **Caveats.** Clients run on the same machine. Files that are in the page cache already are not charged to an instance, as on
//! a node that runs another instance of the same image.

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
pub use instance::InstanceError;
pub use latency::{LatencyMicros, MIN_SAMPLES, Percentile};
pub use load::LoadError;
pub use machine::Machine;
pub use measure::MeasureError;
pub use measurement::Measurement;
pub use model_profile::{
    API_VERSION, KIND, MAX_LISTED_OBJECTS, Measured, Metadata, ModelProfileManifest,
    ModelProfileSpec, ProfiledConfiguration, ProfiledObject, is_resource_name, resource_name,
};
pub use oip::OipError;
pub use plan::{RuledOut, SloBound, TOLERANCE_PERCENT, ruled_out};
pub use session::{Event, Fate, Listener, Outcome, ProfileError, ProfileRequest, profile, stored};
pub use setting::{GridError, MAX_CLIENTS, MAX_SETTINGS, Setting, grid, parse_cpus};
pub use shared::SharedPart;
