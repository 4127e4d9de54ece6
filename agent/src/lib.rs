//! Loads models through the Tetris tensor store, so that a node holds one copy of every tensor.
//!
//! [`Agent::load`] turns a safetensors file, or a Hugging Face directory, into read-only or
//! copy-on-write mappings of shared objects. A file known on the node is attached after its
//! header and some random blocks were compared; an unknown one is read once, hashed and published
//! over all cores. What the store cannot hold is loaded into private memory: a load never fails because of the store.
//!
//! ```
//! # let models = tempfile::tempdir()?;
//! # let path = models.path().join("model.safetensors");
//! # let bytes = vec![7; 8 << 20];
//! # let view = safetensors::tensor::TensorView::new(safetensors::Dtype::U8, vec![8 << 20], &bytes)?;
//! # safetensors::serialize_to_file([("weight", view)], None, &path)?;
//! # let folder = tempfile::tempdir_in("/dev/shm")?;
//! use tetris_agent::{Agent, CreateOptions, Store};
//!
//! // Programs take `Agent::from_env()`: the store of the machine.
//! let store = Store::create(folder.path(), &CreateOptions::default())?;
//! let agent = Agent::with_store(store);
//! let model = agent.load(&path)?;
//! let weight: &[u8] = model.tensor("weight").unwrap().bytes();
//! assert_eq!(weight.len(), 8 << 20);
//! assert_eq!(model.report().bytes_new, 8 << 20);
//!
//! // The same bytes from another file, or in another process, are the same memory.
//! let copy = models.path().join("copy.safetensors");
//! std::fs::copy(&path, &copy)?;
//! let again = agent.load(&copy)?;
//! assert_eq!(again.report().bytes_shared, 8 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Agent`] loads files, publishes bytes, and runs transforms once per node ([`Agent::derive`]).
//! - [`Model`] has the tensors; dropping it drops the references. [`LoadReport`] lists what is shared.
//! - [`LoadOptions`] are those of one load; [`store_location`] chooses the store used without a name.
//! - `device` has models in device memory, from the node's GPU mirror (feature `gpu`).

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
#[cfg(feature = "gpu")]
mod known_model;
mod layout;
mod load;
mod loaded_file;
mod model;
mod model_file;
mod node_publisher;
mod options;
mod origin;
mod private_reason;
mod publish;
mod read_at;
mod report;
mod similarity;
mod trace_parent;
mod worth;

pub mod daemon;
#[cfg(feature = "gpu")]
pub mod device;
pub mod gc;
pub mod remove;
pub mod store_location;

pub use agent::{Agent, AgentCounters};
pub use derive::Derived;
pub use detached::{DetachedTensor, Region};
pub use error::ShareError;
pub use layout::{AttachedLayout, LayoutParts, PlacedTensor};
pub use load::bound;
pub use model::{Model, SharedFile, Tensor};
pub use model_file::ModelFile;
pub use node_publisher::{NodePublishError, NodePublisher};
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
    LoadError, PrivateCause, Progress, ProgressFn, Recognized, Words, header, hub, sidecar,
};
pub use tetris_store_layout::{
    Access, CreateOptions, Dtype, LayoutKey, ManifestKind, Store, TensorId,
};
pub use trace_parent::{set_trace_source, trace_parent, with_trace_parent};
pub use worth::NotWorthSharing;
