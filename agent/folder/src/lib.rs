//! Models of the tensor store as folders that any program opens.
//!
//! A pull lists the files of a model in a [`FolderTable`], an object of the store (LAYOUT.md 3.8). A
//! [`ModelFolder`] maps the objects of all of them, and composes the bytes of each file from its header and
//! its tensors, which stay the only copy. `mount` serves it to other programs (feature `mount`), and
//! [`ModelFolder::copy_to`] writes the files for programs that look for them elsewhere.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod copy;
mod error;
mod folder;
mod header;
#[cfg(feature = "mount")]
mod mount;
mod table;
#[cfg(feature = "mount")]
mod tree;

pub use error::{FolderError, TableError};
pub use folder::ModelFolder;
pub use header::{find_header, header_key};
#[cfg(feature = "mount")]
pub use mount::{MountOptions, Mounted, OpenObject, ShownFolder, Unmounter};
pub use table::{FolderTable, MAX_FILES, TableFile};
