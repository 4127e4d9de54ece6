//! Models as sets of objects.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tetris_store_layout::{Digest, ObjectId};
use thiserror::Error;

/// The description of a model is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The model has no objects, or too many.
    #[error("expected a model of 1 to {most} objects, found {found}; load it file by file")]
    Parts {
        /// Number of objects.
        found: usize,
        /// Maximum number of objects.
        most: usize,
    },
    /// The access order has an index beyond the model's objects.
    #[error("expected an access order of indexes below {parts}, found {found}; record it again")]
    Order {
        /// The index.
        found: usize,
        /// Number of objects of the model.
        parts: usize,
    },
    /// An object has no bytes, too many bytes, or two different lengths.
    #[error(
        "expected one length above 0, and below 2^60 bytes for all objects, found {len} bytes for object {object}; read the manifest again"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length in bytes.
        len: u64,
    },
}

/// Key of a model within a tenant: BLAKE3 of its objects' ids and lengths, ordered by id. The
/// access order is not part of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelKey(pub Digest);

impl ModelKey {
    /// The first key in order.
    pub const MIN: Self = Self(Digest([0; 32]));
    /// The last key in order.
    pub const MAX: Self = Self(Digest([u8::MAX; 32]));

    /// Computes the key of a model of these objects.
    fn of(lengths: &BTreeMap<ObjectId, u64>) -> Self {
        let mut bytes = Vec::with_capacity(lengths.len() * 40);
        for (object, len) in lengths {
            bytes.extend_from_slice(&object.0.0);
            bytes.extend_from_slice(&len.to_le_bytes());
        }
        Self(Digest::of(&bytes))
    }
}

impl fmt::Debug for ModelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// An object of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The object.
    pub object: ObjectId,
    /// Its length in bytes.
    pub len: u64,
}

/// A model with checked objects and order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    key: ModelKey,
    parts: Arc<[Part]>,
    bytes: u64,
}

impl ModelSpec {
    /// Maximum number of objects of a model: that of one manifest (INV-8 of LAYOUT.md) for each of
    /// 16 files.
    pub const MAX_PARTS: usize = 16 * tetris_store_layout::MAX_OBJECTS;

    /// Creates a model of `parts`, in the order of the file. An object that occurs twice counts
    /// once. `order` has indexes into `parts` in the order of their first use (TIDAL 5.2), as far
    /// as it is known. These objects come first; the others follow in the order of the file.
    ///
    /// # Errors
    ///
    /// [`ModelError`] if the number of objects, an index or a length is out of range.
    pub fn try_new(parts: &[Part], order: &[usize]) -> Result<Self, ModelError> {
        if parts.is_empty() || parts.len() > Self::MAX_PARTS {
            let count = parts.len();
            let most = Self::MAX_PARTS;
            return Err(ModelError::Parts { found: count, most });
        }
        let traced = traced(parts, order)?;
        let mut lengths: BTreeMap<ObjectId, u64> = BTreeMap::new();
        let mut ordered = Vec::new();
        let mut bytes = 0u64;
        for part in traced.iter().chain(parts) {
            let length = ModelError::Length {
                object: part.object,
                len: part.len,
            };
            match lengths.insert(part.object, part.len) {
                Some(len) if len == part.len => continue,
                Some(_) => return Err(length),
                None => ordered.push(*part),
            }
            let sum = bytes.checked_add(part.len).filter(|_| part.len > 0);
            bytes = sum.filter(|sum| *sum < 1 << 60).ok_or(length)?;
        }
        Ok(Self {
            key: ModelKey::of(&lengths),
            parts: ordered.into(),
            bytes,
        })
    }

    /// Its key.
    pub fn key(&self) -> ModelKey {
        self.key
    }

    /// Its objects, each once, in order of access.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The same list, shared.
    pub fn shared_parts(&self) -> Arc<[Part]> {
        Arc::clone(&self.parts)
    }

    /// Sum of the objects' lengths, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The parts at the indexes in `order`.
fn traced(parts: &[Part], order: &[usize]) -> Result<Vec<Part>, ModelError> {
    let part = |at: &usize| {
        parts.get(*at).copied().ok_or(ModelError::Order {
            found: *at,
            parts: parts.len(),
        })
    };
    order.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, len: u64) -> Part {
        let object = ObjectId::of(name.as_bytes());
        Part { object, len }
    }

    #[test]
    fn what_is_used_first_comes_first_and_each_object_once() {
        let parts = [part("a", 1), part("b", 2), part("c", 3), part("b", 2)];
        let spec = ModelSpec::try_new(&parts, &[2, 3]).unwrap();
        assert_eq!(spec.parts(), [part("c", 3), part("b", 2), part("a", 1)]);
        assert_eq!(spec.bytes(), 6);
        assert_eq!(ModelSpec::try_new(&parts, &[]).unwrap().key(), spec.key());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let try_new = |parts: &[Part], order: &[usize]| ModelSpec::try_new(parts, order);
        assert!(try_new(&[], &[]).is_err());
        assert!(try_new(&[part("a", 0)], &[]).is_err());
        assert!(try_new(&[part("a", 1), part("a", 2)], &[]).is_err());
        assert!(try_new(&[part("a", u64::MAX), part("b", u64::MAX)], &[]).is_err());
        assert!(try_new(&[part("a", 1)], &[1]).is_err());
    }
}
