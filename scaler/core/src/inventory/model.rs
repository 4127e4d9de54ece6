//! The tensors of a model, as objects of the store.

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;
use thiserror::Error;

/// T_i: the objects of a model and their sizes, each object once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTensors {
    objects: Vec<(ObjectId, u64)>,
    total_bytes: u64,
}

/// A list of objects is no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An object has one size: its name is the hash of its bytes.
    #[error("object {id} is given {first_bytes} and {second_bytes} bytes")]
    TwoSizes {
        /// The object.
        id: ObjectId,
        /// Its size at first.
        first_bytes: u64,
        /// Its size later.
        second_bytes: u64,
    },
    /// The sum of all sizes does not fit into 64 bits.
    #[error("the objects of the model exceed 2^64 bytes")]
    TooLarge,
}

impl ModelTensors {
    /// Objects with their sizes in bytes, in any order. An object that several tensors use, or that is
    /// listed twice, counts once.
    pub fn try_new(objects: impl IntoIterator<Item = (ObjectId, u64)>) -> Result<Self, ModelError> {
        let mut sizes = BTreeMap::new();
        let mut total_bytes = 0_u64;
        for (id, second_bytes) in objects {
            match sizes.insert(id, second_bytes) {
                None => {
                    let sum = total_bytes.checked_add(second_bytes);
                    total_bytes = sum.ok_or(ModelError::TooLarge)?;
                }
                Some(first_bytes) if first_bytes != second_bytes => {
                    return Err(ModelError::TwoSizes {
                        id,
                        first_bytes,
                        second_bytes,
                    });
                }
                Some(_) => {}
            }
        }
        Ok(Self {
            objects: sizes.into_iter().collect(),
            total_bytes,
        })
    }

    /// The objects by id, with their sizes in bytes.
    pub fn objects(&self) -> &[(ObjectId, u64)] {
        &self.objects
    }

    /// `Mem(T_i)`, in bytes.
    pub const fn total_bytes(&self) -> u64 {
        self.total_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_counts_once_and_has_one_size() {
        let (a, b) = (ObjectId::of(b"a"), ObjectId::of(b"b"));
        let model = ModelTensors::try_new([(a, 1), (b, 2), (a, 1)]).unwrap();
        assert_eq!((model.total_bytes(), model.objects().len()), (3, 2));
        let error = ModelTensors::try_new([(a, 1), (a, 2)]).unwrap_err();
        assert!(error.to_string().contains("1 and 2 bytes"), "{error}");
        let error = ModelTensors::try_new([(a, u64::MAX), (b, 1)]).unwrap_err();
        assert_eq!(error, ModelError::TooLarge);
    }
}
