//! Errors of the way from a path to a model.

use std::io;
use std::path::{Path, PathBuf};

use super::{INDEX_NAME, SINGLE_NAME};
use crate::header::quoted;

/// The most names that an error lists.
const SHOWN_NAMES: usize = 8;

const FILE_STEP: &str = "name the file to load";
const PIPELINE_STEP: &str = "this is a diffusers pipeline, which is not supported as a whole: name the directory or the file of one component";

/// The reason that a path does not lead to a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Something could not be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file or directory that cannot be read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is a socket, a pipe or a device.
    #[error("expected a file or a directory, found something else at `{}`", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The index exceeds [`MAX_INDEX_LEN`](super::MAX_INDEX_LEN).
    #[error("expected an index of at most {limit} bytes, found more in `{}`", path.display())]
    IndexTooLarge {
        /// The index.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The index is not what an index should be.
    #[error("expected a JSON map with a `weight_map` from tensors to files in `{}`; download it again", path.display())]
    IndexJson {
        /// The index.
        path: PathBuf,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The index names no tensor.
    #[error("expected tensors in the `weight_map` of `{}`, found none; download it again", path.display())]
    IndexEmpty {
        /// The index.
        path: PathBuf,
    },
    /// The index names a file outside its directory, or no file at all.
    #[error(
        "expected file names inside the directory in `{}`, found {} for tensor {}; do not use this model",
        path.display(), quoted(file), quoted(tensor)
    )]
    UnsafeName {
        /// The index.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file named for it.
        file: String,
    },
    /// A file that the index names is not there.
    #[error("expected the file `{}`, which `{INDEX_NAME}` names, found none; the download is incomplete, repeat it", path.display())]
    MissingShard {
        /// The missing file.
        path: PathBuf,
    },
    /// The directory has no model, or several.
    #[error(
        "expected `{INDEX_NAME}`, `{SINGLE_NAME}` or exactly one `*.safetensors` file in `{}`, found {}; {}",
        dir.display(), listed(found), next_step(*pipeline, snapshot.as_deref())
    )]
    NoModel {
        /// The directory.
        dir: PathBuf,
        /// The names of the safetensors files in it, sorted.
        found: Vec<String>,
        /// True for a diffusers pipeline.
        pipeline: bool,
        /// A snapshot in the directory, if it is a model's folder of a Hugging Face cache.
        snapshot: Option<PathBuf>,
    },
    /// The directory has more entries than [`MAX_DIR_ENTRIES`](super::MAX_DIR_ENTRIES).
    #[error("expected at most {limit} entries in `{}`, found more; name the model's file instead", dir.display())]
    DirTooLarge {
        /// The directory.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
}

fn next_step(pipeline: bool, snapshot: Option<&Path>) -> String {
    match snapshot {
        Some(snapshot) => format!(
            "this is a model's folder of a Hugging Face cache: name the snapshot `{}`",
            snapshot.display()
        ),
        None if pipeline => PIPELINE_STEP.to_owned(),
        None => FILE_STEP.to_owned(),
    }
}

/// Names for an error: quoted, because the owner of the directory chooses them.
fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "none of them".to_owned();
    }
    let mut shown: Vec<String> = names
        .iter()
        .take(SHOWN_NAMES)
        .map(|name| format!("{name:?}"))
        .collect();
    if names.len() > SHOWN_NAMES {
        shown.push(format!("{} more", names.len() - SHOWN_NAMES));
    }
    shown.join(", ")
}
