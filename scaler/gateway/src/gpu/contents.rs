//! Contents of models that are new to a pool, read from a page.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use tetris_scaler_dispatch::gpu::{ModelId, ObjectId, Part};

use super::limits::PARTS;
use super::page_error::PageError;
use super::status::ModelStatus;

/// Parts of models, each part once.
pub(super) type Contents = BTreeMap<ModelId, Vec<Part>>;

/// Numbers of parts by their names. No name is kept: a number is a keyed hash of 64 bits, so that two of a million parts have
/// the same one with a probability of 1 : 30 million, and an executor cannot look for such parts. They would count as one.
#[derive(Clone, Debug, Default)]
pub(super) struct PartNumbers(RandomState);

impl PartNumbers {
    fn number(&self, name: &str) -> ObjectId {
        ObjectId(self.0.hash_one(name))
    }

    /// Reads the parts of models, one model at a time.
    ///
    /// # Errors
    ///
    /// The field that is wrong or above its limit.
    pub(super) fn read(
        &self,
        models: &[(ModelId, &ModelStatus<'_>)],
    ) -> Result<Contents, PageError> {
        let mut contents = Contents::new();
        let mut count = 0_usize;
        for (id, model) in models {
            let Some(parts) = model.parts()? else {
                continue;
            };
            count = count.saturating_add(parts.len());
            if count > PARTS {
                return Err(PageError::Parts);
            }
            let parts = parts.iter().map(|part| Part {
                object: self.number(&part.id),
                bytes: part.bytes,
            });
            let mut parts: Vec<Part> = parts.collect();
            parts.sort_unstable_by_key(|part| part.object);
            parts.dedup_by_key(|part| part.object);
            contents.insert(*id, parts);
        }
        Ok(contents)
    }
}
