//! Errors of `plan`.

use std::io;
use std::path::PathBuf;

use tetris_scaler_core::InventoryFull;
use thiserror::Error;

use crate::resources::FieldProblem;

/// The reason there is no plan.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A file that cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file that is too long.
    #[error("{}: longer than {most} bytes; give fewer objects", path.display())]
    TooLong {
        /// Path of the file.
        path: PathBuf,
        /// Maximum size, in bytes.
        most: u64,
    },
    /// A directory without input files.
    #[error("{}: no file that ends in .yaml, .yml or .json", path.display())]
    EmptyDirectory {
        /// Path of the directory.
        path: PathBuf,
    },
    /// A file that is neither YAML nor JSON.
    #[error("{}: {problem}", path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Position, and the expected syntax.
        problem: String,
    },
    /// An invalid field of a document.
    #[error("{at}: {problem}")]
    Field {
        /// File, document, kind and name.
        at: String,
        /// The field and its error.
        problem: FieldProblem,
    },
    /// A document that contradicts the others.
    #[error("{at}: {problem}")]
    Document {
        /// File, document, kind and name.
        at: String,
        /// The problem, and the next step.
        problem: String,
    },
    /// A missing document.
    #[error("{problem}")]
    Missing {
        /// The missing document, and the way to give it.
        problem: String,
    },
    /// More nodes or objects than an inventory holds.
    #[error(transparent)]
    Inventory(#[from] InventoryFull),
    /// A failure to write the plan.
    #[error("cannot write the plan: {0}")]
    Output(io::Error),
}
