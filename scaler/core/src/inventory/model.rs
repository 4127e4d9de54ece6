//! Tensors of a model, as objects of the store.

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;
use thiserror::Error;

/// Objects of a model with their sizes, without duplicates: T_i in the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelTensors {
    objects: Vec<(ObjectId, u64)>,
    total_bytes: u64,
}

/// The reason a list of objects is not a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// An object with two sizes, although its name is the hash of its bytes.
    #[error("object {id}: found {first_bytes} and {second_bytes} bytes, expected one size")]
    TwoSizes {
        /// Id of the object.
        id: ObjectId,
        /// Its first size.
        first_bytes: u64,
        /// Its second size.
        second_bytes: u64,
    },
    /// A sum of sizes that does not fit into 64 bits.
    #[error("the objects of the model exceed 2^64 bytes")]
    TooLarge,
}

impl ModelTensors {
    /// Creates a model from objects with their sizes in bytes, in any order. An object that several
    /// tensors use, or that is listed twice, counts once.
    ///
    /// # Errors
    ///
    /// Fails if an object has two sizes, or if the sum overflows.
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

    /// Objects by id, with their sizes in bytes.
    pub fn objects(&self) -> &[(ObjectId, u64)] {
        &self.objects
    }

    /// Returns true if the model has the object.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.objects
            .binary_search_by(|(other, _)| other.cmp(id))
            .is_ok()
    }

    /// Size of all objects, `Mem(T_i)`, in bytes.
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
