//! Residency: the models on each device, the clients that hold them, and eviction.
//!
//! Pure: no I/O, no clock. A server calls [`Manager::admit`], follows the [`Admission`] (release
//! chunks, create chunks, copy objects), and reports with [`Manager::copied`] or
//! [`Manager::failed`]. When a connection ends it calls [`Manager::disconnect`]; a killed client
//! needs nothing else.
//!
//! **Guarantees.**
//!
//! - B1: a model stays in place until its client releases it or disconnects. An object that is
//!   being copied stays in place too.
//! - B2: an admission is all or nothing: a refusal changes nothing.
//! - B3: an object is on a device once for each tenant, however many models hold it. Tenants share
//!   nothing.
//! - B4: no tenant's chunks exceed its quota on a device, and all chunks together never exceed the
//!   device's capacity.
//! - B5: light models are evicted before heavy ones, and each of the two in LRU order. Torpor (5.4)
//!   "prioritizes light models in eviction, as swapping them leads to negligible or no PCIe
//!   bandwidth contention"; "when only heavy models remain, Torpor adopts Least-Recently-Used (LRU)
//!   policy". Torpor does not give the order among light models; LRU is our choice. If a quota is
//!   the obstacle, only the tenant's own models leave. A model is light if it has at most
//!   [`Config::light_bytes`], or what its device's link copies in the
//!   time that an inference hides ([`Manager::set_light_bytes`]).
//! - B6: after an admission, a release or an eviction, chunks without held objects waste at most
//!   [`ArenaConfig::waste_limit`] of their live bytes: the manager drops idle objects from the
//!   emptiest chunks until that holds.
//! - B7: a model goes to the device that has most of its bytes, then to the one with most free
//!   memory. A device on which no model must leave comes before all others.
//! - B8: a released chunk whose memory processes keep counts, for the device and for its tenant,
//!   until the caller reports that it is free ([`Manager::linger`]).
//! - B9: kept objects ([`Manager::keep`]) leave only after every idle model, the least recently
//!   used template first, and of each from the end of its prefix. They make room for clients, not
//!   for another template.
//! - B10: an object that several templates keep is there once, and stays while one of them keeps it.
//! - B11: an object that another device copies from stays in its place, unless it is damaged or its
//!   device is lost.
//!
//! **Caveats.** The driver frees the memory of a dead client only after it has removed the client's
//! mappings. So the creation of a chunk can fail although these numbers allow it, and the server then
//! calls [`Manager::failed`] for the objects that it could not copy. Chunks with a held object can
//! be nearly empty.
//!
//! [`ArenaConfig::waste_limit`]: crate::arena::ArenaConfig::waste_limit

mod admission;
mod admit;
mod config;
mod device;
mod error;
mod evict;
mod light;
mod manager;
mod pins;
mod presence;
mod template;

#[cfg(test)]
mod tests;

pub use admission::{Admission, Copy, Evicted, Failed, Freed, Released, Usage};
pub use config::{ClientId, Config, DeviceId, TenantId};
pub use error::Refusal;
pub use manager::Manager;
pub use presence::Presence;
pub use template::{Filling, PrefixUsage};
pub use tetris_gpu_protocol::{ModelError, ModelKey, ModelSpec, Part};
