//! Manifests: what a model file consists of (LAYOUT.md 3.2).

mod check;
mod decode;
mod encode;
mod io;
#[cfg(test)]
mod tests;

use crate::digest::{Digest, ManifestId, TensorId};
use crate::dtype::Dtype;
use crate::store::ObjectRef;

/// Most objects of one model: a quarter of the default of `vm.max_map_count` (INV-8).
pub const MAX_OBJECTS: usize = 16_384;

/// Most tensors of one file. The largest checkpoints have about 1e5; a header of 100 MB, the cap of
/// the safetensors format, has room for about 1.6 million.
const MAX_TENSORS: usize = 1 << 22;
const MAX_METADATA: usize = 1 << 20;
/// The cap on a header of a safetensors file is 100 MB; a manifest takes less than four times that.
const MAX_MANIFEST_BYTES: u64 = 400_000_000;

const MAGIC: &[u8; 8] = b"TETRMANI";
const HEADER_LEN: usize = 128;
const OBJECT_LEN: usize = 48;
const TENSOR_LEN: usize = 72;
const METADATA_LEN: usize = 8;
/// Object index of a tensor that needs no object because it has no bytes.
const NO_OBJECT: u32 = u32::MAX;

/// Kind of the file that a manifest describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManifestKind {
    /// A safetensors file: tensors in objects and packs.
    Safetensors,
    /// Any file, kept as one object that programs map by path.
    File,
}

/// Kind of an object's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// One tensor.
    Tensor,
    /// Several small tensors.
    Pack,
    /// A whole file.
    File,
}

impl ObjectKind {
    const fn code(self) -> u8 {
        match self {
            Self::Tensor => 1,
            Self::Pack => 2,
            Self::File => 3,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Tensor),
            2 => Some(Self::Pack),
            3 => Some(Self::File),
            _ => None,
        }
    }

    /// The kind's name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Pack => "pack",
            Self::File => "file",
        }
    }
}

/// An object of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ManifestObject {
    /// The object's name.
    pub object: ObjectRef,
    /// Kind of its content.
    pub kind: ObjectKind,
}

/// Place of a tensor in the model's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorPlace {
    /// Index into [`Manifest::objects`].
    pub object: u32,
    /// Offset inside the object, in bytes.
    pub offset: u64,
}

/// A tensor of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestTensor {
    /// The tensor's name, unique in the model file.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Identity of the tensor's bytes.
    pub id: TensorId,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the bytes in the model file, relative to [`Manifest::data_start`].
    pub source_offset: u64,
    /// Place of the bytes in the store; `None` for a tensor of length 0.
    pub place: Option<TensorPlace>,
}

/// The objects and tensors of a model file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Kind of the file.
    pub kind: ManifestKind,
    /// Length of the model file in bytes.
    pub source_size: u64,
    /// Offset of the tensor data in the model file, in bytes.
    pub data_start: u64,
    /// BLAKE3-256 of the model file's first `data_start` bytes.
    pub header_digest: Digest,
    /// The file's own key-value pairs (`__metadata__`), keys ascending.
    pub metadata: Vec<(String, String)>,
    /// The objects that hold the bytes.
    pub objects: Vec<ManifestObject>,
    /// The tensors, in file order.
    pub tensors: Vec<ManifestTensor>,
}

impl Manifest {
    /// The manifest's id: BLAKE3-256 of its encoding (INV-7).
    pub fn id(&self) -> ManifestId {
        ManifestId::of(&self.encode())
    }

    /// Bytes of all objects.
    pub fn object_bytes(&self) -> u64 {
        let lengths = self.objects.iter().map(|entry| entry.object.len);
        lengths.fold(0, u64::saturating_add)
    }
}
