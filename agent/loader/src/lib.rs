//! Model files to objects of the tensor store.
//!
//! A load reads a file's header ([`header`]), plans its objects ([`Plan`]), and reads, hashes and
//! publishes them over all cores ([`Pipeline`]). A file that is known is compared with its objects
//! instead ([`compare`]). The agent loads with these parts in its own process; the node daemon
//! publishes files and memory for pods that can only read the store ([`ingest`]).

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cause;
mod error;
mod job;
mod map_limit;
mod map_objects;
mod model_bytes;
mod monitor;
mod object_bytes;
mod pack_small;
mod pipeline;
mod plan;
mod planned_file;
mod private;
mod progress;
mod recognized;
mod sealed;
mod settling;
mod source;
mod stored_file;

pub mod compare;
pub mod header;
pub mod hub;
pub mod ingest;
pub mod sidecar;
pub mod threads;

pub use cause::{PrivateCause, Words};
pub use error::{LoadError, LoadFailure};
pub use job::{Job, jobs_of_manifest};
pub use map_limit::MapLimit;
pub use map_objects::map_objects;
pub use model_bytes::ModelBytes;
pub use monitor::ReadMonitor;
pub use object_bytes::{ReadBytes, SegmentSink, WriteBytes, each_segment, named, object_of};
pub use pipeline::{HashedObject, Pipeline, PipelineRun};
pub use plan::{Plan, PlannedTensor};
pub use planned_file::PlannedFile;
pub use private::{PRIVATE_ALIGN, PrivateBytes};
pub use progress::{Progress, ProgressFn};
pub use recognized::{Recognized, disown};
pub use sealed::MemoryFile;
pub use source::Source;
pub use stored_file::StoredFile;
