//! Writer of models with the format's own library, with one tensor in memory at a time.

use std::borrow::Cow;
use std::path::Path;

use safetensors::{Dtype, View, serialize_to_file};

use super::{Kind, Model, Spec, fill};
use crate::error::{Error, Result};
use crate::system::disk;

/// A tensor whose bytes are generated at the library's request.
struct Lazy<'a> {
    spec: &'a Spec,
    shape: Vec<usize>,
    seed: u64,
}

impl View for Lazy<'_> {
    fn dtype(&self) -> Dtype {
        match self.spec.kind {
            Kind::F32 => Dtype::F32,
            Kind::Bf16 => Dtype::BF16,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Owned(fill(self.spec, self.seed))
    }

    fn data_len(&self) -> usize {
        self.spec.len() as usize
    }
}

/// Writes a model to a file, and waits until the file can be recognized by its time stamp: no one loads models the moment they
/// are written.
pub fn write(model: &Model, seed: u64, path: &Path) -> Result<()> {
    let tensors = model.tensors.iter().map(|spec| {
        let shape = spec.shape.iter().map(|&extent| extent as usize).collect();
        (spec.name.as_str(), Lazy { spec, shape, seed })
    });
    serialize_to_file(tensors, None, path).map_err(|error| Error::Model {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })?;
    disk::settle(path)
}
