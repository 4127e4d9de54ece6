//! Loading models for the sake of the store: tensors, or files kept whole.

use std::any::Any;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetris_agent::header::{Header, HeaderError, HeaderProblem};
use tetris_agent::{
    Access, Agent, LoadError, LoadOptions, LoadReport, ManifestKind, Model, PrivateCause,
    SharedFile, Words,
};
use tetris_store_layout::{ManifestId, ObjectRef};

use super::error::Result;

/// References that keep a model's objects in the store while they live.
pub(crate) type References = Box<dyn Any + Send>;

/// A model in memory, as tensors or as a file.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// A safetensors file, or a directory of them.
    Model(Model),
    /// Any other file.
    File(SharedFile),
}

/// As what the model at `path` is kept: as tensors where it is safetensors, whole otherwise.
///
/// A name ending in `.safetensors` is taken at its word, so that a damaged file is an error; any other
/// file must have a valid header (blobs in a Hugging Face cache have no ending).
pub(crate) fn kind_of(path: &Path, whole_file: bool) -> ManifestKind {
    if whole_file {
        return ManifestKind::File;
    }
    let named = path.extension().is_some_and(|ext| ext == "safetensors");
    if named || !path.is_file() || has_header(path) {
        ManifestKind::Safetensors
    } else {
        ManifestKind::File
    }
}

fn has_header(path: &Path) -> bool {
    let header = File::open(path).and_then(|file| {
        let len = file.metadata()?.len();
        let read = Header::read(&file, len, path);
        // A pointer stands for a model: the load is refused with that.
        let pointer = |error: &HeaderError| {
            let HeaderError::Invalid { source, .. } = error else {
                return false;
            };
            matches!(source, HeaderProblem::LfsPointer { .. })
        };
        Ok(read.as_ref().map_or_else(pointer, |_| true))
    });
    // What cannot be read is for the load to report.
    header.unwrap_or(true)
}

/// Name of a kind.
pub(crate) const fn kind_name(kind: ManifestKind) -> &'static str {
    match kind {
        ManifestKind::Safetensors => "safetensors",
        ManifestKind::File => "file",
    }
}

impl Loaded {
    /// Loads the model at `path`.
    pub(crate) fn load(
        agent: &Agent,
        path: &Path,
        kind: ManifestKind,
        options: &LoadOptions,
    ) -> Result<Self, LoadError> {
        match kind {
            ManifestKind::Safetensors => agent.load_with(path, options).map(Self::Model),
            ManifestKind::File => agent.share_file(path, options).map(Self::File),
        }
    }

    /// The report of the load.
    pub(crate) fn report(&self) -> &LoadReport {
        match self {
            Self::Model(model) => model.report(),
            Self::File(file) => file.report(),
        }
    }

    /// Path in the store of a file that is kept whole.
    pub(crate) fn stored_path(&self) -> Option<&Path> {
        match self {
            Self::File(file) if file.is_shared() => Some(file.path()),
            _ => None,
        }
    }

    /// The files with their manifests.
    pub(crate) fn manifests(&self, path: &Path) -> Vec<(PathBuf, Option<ManifestId>)> {
        match self {
            Self::Model(model) => {
                let manifests = model.manifests();
                manifests.map(|(path, id)| (path.to_owned(), id)).collect()
            }
            Self::File(file) => vec![(path.to_owned(), file.manifest())],
        }
    }

    /// Bytes that are not in the store, and why; `None` when all are.
    pub(crate) fn not_in_store(&self) -> Option<&str> {
        let report = self.report();
        let missing = match self {
            Self::Model(_) => report.bytes_private > 0,
            Self::File(file) => !file.is_shared(),
        };
        let reason = report.private_reason.as_deref();
        missing.then(|| reason.unwrap_or("the store could not take it"))
    }

    /// Keeps what is in the store, and no private copy of what is not.
    pub(crate) fn into_references(self, agent: &Agent) -> References {
        match (self, agent.store()) {
            (Self::Model(model), Some(store)) if model.report().bytes_private > 0 => {
                let objects: Vec<ObjectRef> = model.objects().collect();
                let map = |object: &ObjectRef| store.map(object, Access::ReadOnly).ok().flatten();
                let mappings: Vec<_> = objects.iter().filter_map(map).collect();
                // Only now: the model's references kept the objects until here.
                drop(model);
                Box::new(mappings)
            }
            (loaded, _) => Box::new(loaded),
        }
    }

    /// The report as JSON.
    pub(crate) fn to_json(&self, path: &Path) -> Value {
        let (report, missing) = (self.report(), self.not_in_store());
        let recognized: Vec<_> = report.recognized.iter().map(|how| how.name()).collect();
        let manifests: Vec<_> = self
            .manifests(path)
            .into_iter()
            .map(|(file, id)| json!({ "file": lossy(&file), "manifest": id.map(|id| id.to_string()) }))
            .collect();
        let kind = match self {
            Self::Model(_) => ManifestKind::Safetensors,
            Self::File(_) => ManifestKind::File,
        };
        json!({
            "model": lossy(path),
            "kind": kind_name(kind),
            "recognized": recognized,
            "tensors": report.tensors,
            "objects": report.objects,
            "bytes_total": report.bytes_total(),
            "bytes_shared": report.bytes_shared,
            "bytes_new": report.bytes_new,
            "bytes_private": report.bytes_private,
            "bytes_read": report.bytes_read,
            "bytes_of_other_files": report.bytes_of_other_files,
            "private_reason": self.not_in_store(),
            "private_cause": missing.and(report.private_cause).map(PrivateCause::code),
            "private_remedy": missing.and(report.remedy(Words::CommandLine)),
            "stored_path": self.stored_path().map(lossy),
            "manifests": manifests,
            "duration_s": report.duration.as_secs_f64(),
        })
    }
}

/// A path as text; JSON has no other.
pub(crate) fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
