//! Scheduling of requests onto GPUs: late binding, locality, loads and evictions.
//!
//! Models stay in the host's memory; a request is bound to a GPU when it is dispatched. A
//! [`GpuScheduler`] has the global queue, the GPUs with their local queues, and the record of
//! which models are in which memory. Its owner passes on requests, ends of loads, outcomes and
//! lost executors, and carries out what [`GpuScheduler::dispatch`] returns. A [`GpuPolicy`] decides.
//! Like the rest of the crate it is pure: times are arguments. An owner that speaks with real
//! executors also passes on what they report: GPUs, links, models and the content of memories.
//!
//! **Guarantees.** No request is lost or given twice. A GPU executes one request at a time. No
//! memory holds more than its capacity. A model stays while it is executed or copied from. Under
//! [`SharingRules`] no request is overtaken more often than the limit allows. Under [`LoadBalancing`] no GPU is
//! idle while a request waits. A refused request could not have been in time. Property tests check all of them.

mod assignment;
mod attainment;
mod facts;
mod leaving;
mod load_balancing;
mod memory;
mod model;
mod policy;
mod pool;
mod popularity;
mod queue;
mod rejection;
mod request;
mod scheduler;
mod sharing;
mod topology;

pub use assignment::{Assignment, Load};
pub use load_balancing::LoadBalancing;
pub use model::{GpuModel, ModelId, ObjectId, Part};
pub use policy::GpuPolicy;
pub use pool::{GpuState, Pool, Source};
pub use queue::{GlobalQueue, Waiting};
pub use rejection::GpuRejection;
pub use request::GpuRequest;
pub use scheduler::GpuScheduler;
pub use sharing::SharingRules;
pub use topology::{Gpu, GpuId, Topology, transfer_us};
