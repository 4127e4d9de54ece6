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
mod attach;
mod backing;
mod broker;
mod derive;
mod error;
mod foreign;
mod load;
mod make_room;
mod map_limit;
mod model;
mod model_file;
mod options;
mod pipeline;
mod plan;
mod private;
mod publish;
mod read_private;
mod report;
mod settling;
mod similarity;
mod small;
mod source;
mod threads;
mod unknown;
mod worker;
mod worth;

pub mod compare;
pub mod daemon;
#[cfg(feature = "gpu")]
pub mod device;
pub mod gc;
pub mod header;
pub mod hub;
pub mod ingest;
pub mod place;
pub mod sidecar;

pub use agent::{Agent, AgentCounters};
pub use backing::Origin;
pub use derive::Derived;
pub use error::{LoadError, ShareError};
pub use foreign::{DetachedTensor, Region};
pub use model::{Model, SharedFile, Tensor};
pub use model_file::ModelFile;
pub use options::{
    DEFAULT_BROKER_TIMEOUT, DEFAULT_MIN_SHARED_BYTES, DEFAULT_ROOM_TIMEOUT, DEFAULT_WAIT,
    LoadOptions, Progress, ProgressFn,
};
pub use publish::{ReadAt, content_id};
pub use report::{LoadReport, Recognized};
pub use similarity::{Similarity, TensorSet};
pub use tetris_store_layout::{Access, CreateOptions, Dtype, ManifestKind, Store, TensorId};
