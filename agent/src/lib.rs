//! Loads models through the Tetris tensor store, so that a node holds one copy of every tensor.
//!
//! [`Agent::load`] turns a safetensors file, or a Hugging Face directory, into read-only or
//! copy-on-write mappings of shared objects. A file that is known on the node is attached after its
//! header and some random blocks were compared; an unknown one is read once, hashed and published
//! over all cores. What the store cannot hold is loaded into private memory: a load never fails because of the store.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod agent;
mod backing;
mod derive;
mod detached;
mod error;
mod layout;
mod load;
mod loaded_file;
mod model;
mod model_file;
mod options;
mod origin;
mod private_reason;
mod publish;
mod read_at;
mod report;
mod similarity;
mod worth;

pub mod daemon;
#[cfg(feature = "gpu")]
pub mod device;
pub mod doctor;
pub mod gc;
pub mod holders;
pub mod remove;
pub mod sidecar;
pub mod store_location;

pub use agent::{Agent, AgentCounters};
pub use derive::Derived;
pub use detached::{DetachedTensor, Region};
pub use error::ShareError;
pub use layout::{AttachedLayout, LayoutParts, PlacedTensor};
pub use model::{Model, SharedFile, Tensor};
pub use model_file::ModelFile;
pub use options::{
    DEFAULT_BROKER_TIMEOUT, DEFAULT_MIN_SHARED_BYTES, DEFAULT_ROOM_TIMEOUT, DEFAULT_WAIT,
    LoadOptions,
};
pub use origin::Origin;
pub use publish::content_id;
pub use read_at::ReadAt;
pub use report::LoadReport;
pub use similarity::{Similarity, TensorSet};
pub use tetris_loader::{
    LoadError, PrivateCause, Progress, ProgressFn, Recognized, Words, header, hub,
};
pub use tetris_store_layout::{
    Access, CreateOptions, Dtype, LayoutKey, ManifestKind, Store, TensorId,
};
