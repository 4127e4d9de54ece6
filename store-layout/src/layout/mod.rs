//! Layouts: the tensors that an engine makes of a model, as places in objects (LAYOUT.md 3.7).
//!
//! A layout is the content of an object, its table, which a derived record names. So it is found, counted, trusted and
//! collected like any derived object, and one process of the node makes it.

mod check;
mod decode;
mod encode;
mod key;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::derived::DerivedRecord;
use crate::digest::{ObjectId, TensorId};
use crate::dtype::Dtype;
use crate::error::{DecodeError, MapError};
use crate::store::{ObjectRef, Store};

pub use key::LayoutKey;
pub use table::LayoutTable;

/// Longest table in bytes.
pub const MAX_LAYOUT_LEN: u64 = 16 << 20;
/// Most tensors of a layout.
pub const MAX_LAYOUT_TENSORS: usize = 1 << 18;
/// Most source tensors of a layout.
pub const MAX_LAYOUT_SOURCES: usize = 1 << 18;
/// Most attributes of a layout.
pub const MAX_LAYOUT_ATTRIBUTES: usize = 1 << 12;
/// Most dimensions of a tensor.
pub const MAX_LAYOUT_RANK: usize = 64;

const MAGIC: &[u8; 8] = b"TETRLAYT";
const HEADER_LEN: usize = 8 + 4 + 4 + 4 + 4 + 4;
const SOURCE_LEN: usize = 32;
const OBJECT_LEN: usize = 32 + 8 + 4;
/// Bytes of a tensor's entry without its name, dimensions and strides.
const TENSOR_LEN: usize = 4 + 2 + 2 + 4 + 4 + 8;
/// Bytes of an attribute's entry without its key and value.
const ATTRIBUTE_LEN: usize = 4 + 4;
/// Index that stands for no object, and for no alias.
const NONE: u32 = u32::MAX;

/// Tensors by name, and small attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The tensors that it is made of, ascending: with the last model that has one of them, the layout goes.
    pub sources: BTreeSet<TensorId>,
    /// The objects with the tensors' bytes, each once, in the order in which the tensors need them.
    pub objects: Vec<ObjectRef>,
    /// The tensors, in the order that the engine gave them.
    pub tensors: Vec<LayoutTensor>,
    /// Small values that the engine keeps beside tensors, e.g. a kernel's choice.
    pub attributes: BTreeMap<String, Vec<u8>>,
}

/// A tensor of a layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutTensor {
    /// The tensor's name, once in a layout.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Distance of neighbors in each dimension, in elements.
    pub strides: Vec<u64>,
    /// The object with its bytes; `None` for a tensor without elements.
    pub place: Option<LayoutPlace>,
    /// The earlier tensor whose memory this one uses, by index: a change of one shows in both. Tensors that happen to have the
    /// same bytes are no aliases.
    pub alias: Option<u32>,
}

/// The place of a tensor's first element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutPlace {
    /// Index of the object.
    pub object: u32,
    /// Offset in bytes from the object's begin.
    pub offset: u64,
}

impl LayoutTensor {
    /// Bytes from the first element to the end of the last one; 0 for a tensor without elements. `None` when that overflows, or
    /// elements of less than a byte do not fill whole ones.
    pub fn extent(&self) -> Option<u64> {
        if self.shape.contains(&0) {
            return Some(0);
        }
        if !self.dtype.bits().is_multiple_of(8) {
            return self.dtype.tensor_bytes(&self.shape);
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(0u64, |sum, (dim, stride)| {
                sum.checked_add((dim - 1).checked_mul(*stride)?)
            })?;
        last.checked_add(1)?.checked_mul(self.dtype.bits() / 8)
    }

    /// Strides of a tensor whose elements follow each other, the last dimension's first; `None` when they overflow.
    pub fn contiguous_strides(shape: &[u64]) -> Option<Vec<u64>> {
        let mut strides = vec![0; shape.len()];
        let mut elements = 1u64;
        for (stride, dim) in strides.iter_mut().zip(shape).rev() {
            *stride = elements;
            elements = elements.checked_mul((*dim).max(1))?;
        }
        Some(strides)
    }
}

/// The tensors from which something is derived, and the objects that hold the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    /// The source tensors.
    pub sources: Vec<TensorId>,
    /// The objects; those of a layout behind its table.
    pub objects: Vec<ObjectRef>,
}

impl Layout {
    /// Length of all objects in bytes.
    pub fn object_bytes(&self) -> u64 {
        let lengths = self.objects.iter().map(|object| object.len);
        lengths.fold(0, u64::saturating_add)
    }
}

impl DerivedRecord {
    /// Returns true if the object is the table of a layout.
    pub fn is_layout(&self) -> bool {
        self.key.is_layout()
    }
}

impl Store {
    /// The sources and objects of a derived record: its own, and those of a layout, as far as its table can be read.
    ///
    /// # Errors
    /// When the table is damaged.
    pub fn derivation(&self, record: &DerivedRecord) -> Result<Derivation, DecodeError> {
        let mut derivation = Derivation {
            sources: vec![record.key.source()],
            objects: vec![record.object],
        };
        if record.is_layout() {
            match self.layout(&record.object) {
                Ok(layout) => {
                    let layout = layout.unwrap_or_default();
                    derivation.sources.extend(layout.sources);
                    derivation.objects.extend(layout.objects);
                }
                // It is there, and cannot be read at this moment.
                Err(LayoutError::Map(_)) => {}
                Err(LayoutError::Invalid(error)) => return Err(error),
            }
        }
        Ok(derivation)
    }

    /// The layout whose table is `object`, read and checked; `None` if the object is not in the store.
    ///
    /// # Errors
    /// [`LayoutError::Map`] as of [`Store::map`]; [`LayoutError::Invalid`] when the bytes are no layout, or not those of the
    /// object's name.
    pub fn layout(&self, object: &ObjectRef) -> Result<Option<Layout>, LayoutError> {
        if object.len > MAX_LAYOUT_LEN {
            let expected = format!("at most {MAX_LAYOUT_LEN} bytes");
            return Err(DecodeError::field("layout length", expected, object.len).into());
        }
        let Some(table) = self.map(object, crate::Access::ReadOnly)? else {
            return Ok(None);
        };
        let found = ObjectId::of(&table);
        if found != object.id {
            return Err(DecodeError::Checksum {
                field: "layout",
                expected: object.id.to_string(),
                found: found.to_string(),
            }
            .into());
        }
        Ok(Some(Layout::decode(&table)?))
    }
}

/// The reason that a layout cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// Its table cannot be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The table is damaged, or no table.
    #[error("{0}")]
    Invalid(#[from] DecodeError),
}
