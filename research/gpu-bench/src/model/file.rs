//! Models as safetensors files.

use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Metadata, TensorInfo, View};
use safetensors::{Dtype, serialize_to_file};
use tetris_store_layout::{Access, Mapping, Store};

use super::{BenchModel, Tensor};
use crate::BenchError;

/// Maximum length of a header in the format, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Header of a safetensors file.
#[derive(Debug)]
pub(crate) struct Header {
    pub path: PathBuf,
    pub file: File,
    /// Offset of the tensor data, in bytes.
    pub data_start: u64,
    /// Tensors with data, in the order of their bytes.
    pub tensors: Vec<(String, TensorInfo)>,
}

impl Header {
    /// Reads the header of the file at `path`.
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let wrong = |reason: String| BenchError::Model {
            path: path.to_owned(),
            reason,
        };
        let file = File::open(path).map_err(BenchError::io("open", path))?;
        let length = file.metadata().map_err(BenchError::io("stat", path))?.len();
        let header = header_bytes(&file, length).map_err(wrong)?;
        let data_start = 8 + header.len() as u64;
        let metadata: Metadata =
            serde_json::from_slice(&header).map_err(|error| wrong(error.to_string()))?;
        let expected = data_start + metadata.data_len() as u64;
        if length != expected {
            return Err(wrong(format!("expected {expected} bytes, found {length}")));
        }
        let tensors = tensors(&metadata);
        if tensors.is_empty() {
            let reason = "expected tensors, found none that are not empty";
            return Err(wrong(reason.to_owned()));
        }
        let path = path.to_owned();
        Ok(Self {
            path,
            file,
            data_start,
            tensors,
        })
    }

    /// Length of all tensors, in bytes.
    pub fn bytes(&self) -> u64 {
        let lengths = self
            .tensors
            .iter()
            .map(|(_, info)| info.data_offsets.1 - info.data_offsets.0);
        lengths.sum::<usize>() as u64
    }
}

/// Reads the header, without its length field.
fn header_bytes(file: &File, file_bytes: u64) -> Result<Vec<u8>, String> {
    let mut length = [0; 8];
    let read = file.read_exact_at(&mut length, 0);
    read.map_err(|_| "expected a safetensors file, found less than 8 bytes".to_owned())?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER_BYTES.min(file_bytes.saturating_sub(8)) {
        return Err(format!(
            "expected a safetensors file, found a header of {length} bytes in {file_bytes}"
        ));
    }
    let mut header = vec![0; length as usize];
    let read = file.read_exact_at(&mut header, 8);
    read.map_err(|error| error.to_string())?;
    Ok(header)
}

/// Tensors with data, in the order of their bytes.
fn tensors(metadata: &Metadata) -> Vec<(String, TensorInfo)> {
    let tensors = metadata.tensors().into_iter();
    let mut tensors: Vec<_> = tensors.map(|(name, info)| (name, info.clone())).collect();
    tensors.retain(|(_, info)| info.data_offsets.1 > info.data_offsets.0);
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    tensors
}

/// A tensor in the store, in the form that the writer of safetensors files needs.
struct Stored<'a> {
    tensor: &'a Tensor,
    dtype: Dtype,
    mapping: Mapping,
}

impl View for Stored<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.tensor.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.mapping)
    }

    fn data_len(&self) -> usize {
        self.mapping.len()
    }
}

/// Writes a model as a safetensors file.
pub(crate) fn write_file(store: &Store, model: &BenchModel, path: &Path) -> Result<(), BenchError> {
    let views = model.tensors.iter().map(|tensor| stored(store, tensor));
    let views = views.collect::<Result<Vec<_>, _>>()?;
    let written = serialize_to_file(views, None, path);
    written.map_err(|error| BenchError::io("write", path)(std::io::Error::other(error)))
}

fn stored<'a>(store: &Store, tensor: &'a Tensor) -> Result<(&'a str, Stored<'a>), BenchError> {
    let mapping = store.map(&tensor.object, Access::ReadOnly)?;
    let mapping = mapping.ok_or(BenchError::NoObject(tensor.object.id))?;
    let dtype = serde_json::from_value(tensor.dtype.as_str().into());
    let stored = Stored {
        tensor,
        dtype: dtype.map_err(|error| BenchError::Bug(error.to_string()))?,
        mapping,
    };
    Ok((&tensor.name, stored))
}
