//! The tensor store methods: every use of the agent library in this benchmark.

use std::path::{Path, PathBuf};

use tetris_agent::{
    Agent, CreateOptions, LoadOptions, ManifestKind, Model, Similarity, Store, TensorSet, sidecar,
};

use super::{Loaded, StoreUse};
use crate::compute::{Element, Tensor};
use crate::error::{Error, Result};

/// Creates an empty store in a directory on a tmpfs.
pub fn create_store(directory: &Path) -> Result<()> {
    Store::create(directory, &CreateOptions::default())
        .map(drop)
        .map_err(|error| refused(directory, &error))
}

/// Writes the sidecar of a model file. Returns the sidecar's path.
pub fn write_sidecar(file: &Path) -> Result<PathBuf> {
    let manifests = Agent::without_store()
        .manifests(file, ManifestKind::Safetensors, &LoadOptions::default())
        .map_err(|error| refused(file, &error))?;
    let Some((path, manifest)) = manifests.first() else {
        return Err(Error::Store {
            path: file.to_path_buf(),
            reason: "the agent found no weights in it".into(),
        });
    };
    sidecar::write(path, manifest).map_err(|error| refused(file, &error))
}

/// Tensors of a model, by their digests.
pub struct TensorDigests(TensorSet);

impl TensorDigests {
    /// Reads the files of a model and computes the digest of each tensor.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the agent cannot read a file.
    pub fn of<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<Self> {
        let mut set = TensorSet::default();
        for file in files {
            let manifests = Agent::without_store()
                .manifests(file, ManifestKind::Safetensors, &LoadOptions::default())
                .map_err(|error| refused(file, &error))?;
            set.add(&TensorSet::of(manifests.iter().map(|(_, found)| found)));
        }
        Ok(Self(set))
    }

    /// Compares the model with another, by the bytes of the tensors.
    pub fn common_with(&self, other: &Self) -> Similarity {
        self.0.similarity(&other.0)
    }

    /// Length of the distinct tensors of several models, in bytes.
    pub fn distinct_bytes(models: &[Self]) -> u64 {
        let mut all = TensorSet::default();
        for model in models {
            all.add(&model.0);
        }
        all.bytes()
    }
}

/// Loads the files of one instance through the store, with the agent's defaults but one: small files go through it as well.
pub fn load(files: &[PathBuf], store: Option<&Path>) -> Result<Box<dyn Loaded>> {
    let root = store.unwrap_or(Path::new("(none)"));
    let agent = Agent::open_store(root).map_err(|error| refused(root, &error))?;
    let options = LoadOptions::default().with_min_shared_bytes(0);
    let load = |file| agent.load_with(file, &options);
    let models = files
        .iter()
        .map(|file| load(file).map_err(|error| refused(file, &error)))
        .collect::<Result<Vec<_>>>()?;
    Ok(Box::new(Shared { models }))
}

struct Shared {
    models: Vec<Model>,
}

impl Loaded for Shared {
    fn for_each(&self, visit: &mut dyn FnMut(&Tensor<'_>)) {
        for (number, model) in self.models.iter().enumerate() {
            for tensor in model.tensors() {
                visit(&Tensor {
                    file: number as u32,
                    name: tensor.name(),
                    element: Element::from_name(&tensor.dtype().to_string()),
                    shape: tensor.shape(),
                    bytes: tensor.bytes(),
                });
            }
        }
    }

    fn store_use(&self) -> StoreUse {
        let mut store_use = StoreUse::default();
        for report in self.models.iter().map(Model::report) {
            let names = report.recognized.iter().map(|way| way.name().to_owned());
            store_use.identities.extend(names);
            store_use.shared_bytes += report.bytes_shared;
            store_use.published_bytes += report.bytes_new;
            store_use.private_bytes += report.bytes_private;
        }
        store_use
    }
}

/// Converts an error of the agent, with its causes.
fn refused(path: &Path, error: &dyn std::error::Error) -> Error {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        reason.push_str(": ");
        reason.push_str(&error.to_string());
        cause = error.source();
    }
    Error::Store {
        path: path.to_path_buf(),
        reason,
    }
}
