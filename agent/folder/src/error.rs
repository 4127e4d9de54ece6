//! Errors of folders, each with the next step.

use std::io;
use std::path::PathBuf;

use tetris_store_layout::{ManifestId, MapError, StoreError};
use thiserror::Error;

/// A model cannot be opened as a folder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The store does not have the model.
    #[error("`{source_name}` is not in the store {}; pull it first: tetris pull {source_name}", store.display())]
    NotPulled {
        /// The source, as `tetris pull` takes it.
        source_name: String,
        /// The store.
        store: PathBuf,
    },
    /// The table of the folder's files is not valid.
    #[error("the list of the files of `{source_name}` is not valid: {problem}; pull it again")]
    Table {
        /// The source.
        source_name: String,
        /// The problem.
        problem: TableError,
    },
    /// The manifest of a file is not the one that the table describes.
    #[error(
        "`{path}` of `{source_name}`: the table's header and size are not those of manifest {manifest}; pull it again"
    )]
    Manifest {
        /// The source.
        source_name: String,
        /// Path of the file.
        path: String,
        /// The manifest.
        manifest: ManifestId,
    },
    /// Parts of a file are not in the store any more.
    #[error(
        "`{path}` of `{source_name}`: {missing} of {objects} objects were freed; pull it again, which fetches only these"
    )]
    Freed {
        /// The source.
        source_name: String,
        /// Path of the file.
        path: String,
        /// Number of missing objects.
        missing: usize,
        /// Number of objects.
        objects: usize,
    },
    /// The process has as many mappings as it may have.
    #[error(
        "`{path}` of `{source_name}`: this process has as many mappings as it may have; raise vm.max_map_count"
    )]
    Mappings {
        /// The source.
        source_name: String,
        /// Path of the file.
        path: String,
    },
    /// The folder cannot be mounted.
    #[error("cannot mount at {}: {source}; {remedy}", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's reason, or that of `fusermount3`.
        source: io::Error,
        /// The next step.
        remedy: &'static str,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}; the model needs a directory that this user may write to, with room for it", path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The folder cannot be unmounted.
    #[error("cannot unmount {}: {source}; unmount it with `umount`", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Serving a mount ended with an error.
    #[error("the mount at {} ended: {source}", path.display())]
    Serve {
        /// The mount point.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An object cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// Bytes are no table of files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TableError {
    /// They are not of a table's form.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// There are too many files.
    #[error("expected at most {limit} files, found {found}")]
    TooManyFiles {
        /// Most files.
        limit: usize,
        /// Number of files.
        found: usize,
    },
    /// The table is too long.
    #[error("expected at most {limit} bytes, found {found}")]
    TooLong {
        /// Most bytes.
        limit: u64,
        /// Number of bytes.
        found: u64,
    },
    /// A file cannot be in the folder.
    #[error("`{path}`: {problem}")]
    Path {
        /// The path, escaped.
        path: String,
        /// The problem.
        problem: &'static str,
    },
}
