//! Models from where they are kept straight into the tensor store.
//!
//! A pull lists the files at a [`SourceName`], and fetches them by many ranges at once into objects of
//! the store: no file is written, and memory does not grow with the model. Where the node's daemon writes the store, it
//! grows with the largest tensor. What the store has is not fetched. A file is known by the SHA-256 that its source promises, by its version there, or by the
//! sidecar beside it; a fetched object counts under the name of its bytes, and a file is bound to its
//! identities only when all of it is there and has the promised digest.
//!
//! [`pull`] is the entry, [`push`] writes the sidecars, and [`ArtifactTarget`] pushes artifacts. `origin` has the sources, `fetch` ranges with their retries and limits,
//! `objects` fills the store, which `destination` writes or has the daemon write, `file` decides for a file, and `archive`
//! reads files that come in one stream.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod archive;
mod artifact;
mod checksum;
mod destination;
mod error;
mod fetch;
mod file;
mod journal;
mod listing;
mod memory;
mod name;
mod objects;
mod options;
mod origin;
mod pace;
mod peers;
mod pull;
mod pulled_file;
mod push;
mod report;
mod selection;

pub use artifact::{ArtifactReport, ArtifactTarget};
pub use checksum::Checksum;
pub use destination::Destination;
pub use error::PullError;
pub use listing::RemoteFile;
pub use name::SourceName;
pub use options::{DEFAULT_CONNECTIONS, PullOptions};
pub use peers::answer_peers;
pub use pull::{SourceListing, list, pull};
pub use push::{PushReport, PushedSidecar, push};
pub use report::{FileReport, KnownBy, PullReport};
