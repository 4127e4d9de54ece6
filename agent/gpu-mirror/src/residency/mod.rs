//! Which models are on which device, for whom, and who has to go.
//!
//! Pure: no I/O, no clock. A server asks [`Manager::admit`], does what the [`Admission`] says (release chunks, create
//! chunks, copy objects), and reports: [`Manager::copied`] or [`Manager::failed`]. When a connection ends it calls
//! [`Manager::disconnect`], which is all that a killed client needs.
//!
//! **Guarantees.**
//!
//! - B1: what a connected client was admitted to stays where it is until the client releases it, and so does an object that is
//!   being copied.
//! - B2: an admission is all or nothing: with a refusal nothing has changed.
//! - B3: an object is on a device once for each tenant, however many models hold it. Tenants share nothing.
//! - B4: no tenant's chunks exceed its quota on a device, and all chunks together never exceed the device's capacity.
//! - B5: what was evicted left in this order: light models first, then heavy ones, in each of the two the least recently used
//!   first. Torpor (5.4) "prioritizes light models in eviction, as swapping them leads to negligible or no PCIe bandwidth
//!   contention"; "when only heavy models remain, Torpor adopts Least-Recently-Used (LRU) policy". Order among light models
//!   is not said there; LRU is ours. Where a quota is in the way, only the tenant's own models leave. Light is what is at most [`Config::light_bytes`] long.
//! - B6: after an admission, a release or an eviction, chunks in which nothing is held waste at most [`ArenaConfig::waste_limit`] of
//!   the bytes live in them: idle objects in the emptiest chunks are dropped until that is so.
//! - B7: a model goes to the device that has most of it, then to the one with most free memory, and where possible
//!   to one on which nobody has to leave for it.
//!
//! **Caveats.** Memory of a client that died is free when the driver has taken down its mappings, and of one that keeps
//! them after it disconnected when it ends: creating a chunk can fail although the numbers here allow it. A server then
//! calls [`Manager::failed`] for what it could not copy. Chunks in which something is held can be nearly empty.
//!
//! [`ArenaConfig::waste_limit`]: crate::arena::ArenaConfig::waste_limit

mod admission;
mod admit;
mod config;
mod device;
mod error;
mod evict;
mod manager;
mod model;

#[cfg(test)]
mod property;
#[cfg(test)]
mod scenarios;

pub use admission::{Admission, Copy, Evicted, Failed, Freed, Released, Usage};
pub use config::{ClientId, Config, DeviceId, TenantId};
pub use error::{ModelError, Refusal};
pub use manager::Manager;
pub use model::{ModelKey, ModelSpec, Part};
