//! Errors of the cold tier, each with the next step.

use std::path::PathBuf;

use tetris_folder::TableError;
use tetris_store_layout::{IoError, MapError, ObjectId, PublishError, StoreError};
use thiserror::Error;

/// A model cannot be kept on the disk, or not be restored from it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ColdError {
    /// The directory is no cold store.
    #[error(
        "the cold tier in `{path}` cannot be used: {source}; choose an empty directory of a local disk"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: Box<StoreError>,
    },
    /// The directory cannot be written.
    #[error(
        "the cold tier in `{path}` cannot be written; give it to the user that the store belongs to"
    )]
    NotWritable {
        /// The directory.
        path: PathBuf,
    },
    /// Parts of the model are not in the store that it is read from.
    #[error("parts of `{source_name}` are not in `{path}`, e.g. {missing}; pull it again")]
    Incomplete {
        /// The model's source.
        source_name: String,
        /// The store.
        path: PathBuf,
        /// The first missing part.
        missing: String,
    },
    /// The model has more bytes than the cold tier may.
    #[error(
        "`{source_name}` has {bytes} bytes, and the cold tier has room for {size}; raise `cold.size_bytes`"
    )]
    TooLarge {
        /// The model's source.
        source_name: String,
        /// Number of bytes that the disk does not have.
        bytes: u64,
        /// Number of bytes that it may have.
        size: u64,
    },
    /// An object of the cold store has other bytes than its name promises.
    #[error(
        "`{path}`: expected object {expected}, found {found}; it is removed from the cold tier, pull `{source_name}` again"
    )]
    Damaged {
        /// The model's source.
        source_name: String,
        /// The object's file.
        path: PathBuf,
        /// The object by its name.
        expected: ObjectId,
        /// The object that the bytes make.
        found: ObjectId,
    },
    /// The tensor store has no room for the model.
    #[error(
        "the store has no room for the {bytes} bytes of `{source_name}`; free memory or give the store more"
    )]
    NoRoom {
        /// The model's source.
        source_name: String,
        /// Number of bytes.
        bytes: u64,
    },
    /// The list of a model's files is not valid.
    #[error("the list of a model's files is not valid: {0}; pull the model again")]
    Table(#[from] TableError),
    /// A store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// An object cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// An object or a record cannot be written.
    #[error(transparent)]
    Publish(#[from] PublishError),
}
