//! Why there is no plan.

use std::io;
use std::path::PathBuf;

use tetris_scaler_core::InventoryFull;
use thiserror::Error;

use crate::resources::FieldProblem;

/// Why there is no plan: what was given cannot be read or understood.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is too long.
    #[error("{}: longer than {most} bytes; give fewer objects", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        most: u64,
    },
    /// A directory has nothing to read.
    #[error("{}: no file that ends in .yaml, .yml or .json", path.display())]
    EmptyDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A file is no YAML or JSON.
    #[error("{}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, and what was expected.
        problem: String,
    },
    /// A field of a document cannot be.
    #[error("{at}: {problem}")]
    Field {
        /// File, document, kind and name.
        at: String,
        /// The field, and what is wrong.
        problem: FieldProblem,
    },
    /// A document does not fit the others.
    #[error("{at}: {problem}")]
    Document {
        /// File, document, kind and name.
        at: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Something is needed that no file has.
    #[error("{problem}")]
    Missing {
        /// What, and how to give it.
        problem: String,
    },
    /// Nodes have more than an inventory takes.
    #[error(transparent)]
    Inventory(#[from] InventoryFull),
    /// The plan cannot be written.
    #[error("cannot write the plan: {0}")]
    Output(io::Error),
}
