//! Models that this process has named to the mirror, by their keys.

use std::collections::VecDeque;

use tetris_gpu_client::ClientError;
use tetris_gpu_protocol::{MAX_NAMED_MODELS, ModelEntry, ModelState};
use tetris_gpu_protocol::{ModelKey, ModelSpec, Part};
use tetris_store_layout::{Digest, ObjectRef};

use super::DeviceError;

/// A model by the keys of its parts: one for each connection that requests it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedModel {
    /// Identity of the content: of the objects and their lengths, in any order.
    pub model: Digest,
    /// Length of the objects, in bytes.
    pub bytes: u64,
    /// The keys, in the order of the parts.
    parts: Vec<ModelKey>,
}

impl NamedModel {
    /// Names a model of `objects`, requested at most `most` at a time.
    pub(super) fn new(objects: &[ObjectRef], most: usize) -> Result<Self, DeviceError> {
        let key = |objects: &[ObjectRef]| {
            let part = |object: &ObjectRef| Part {
                object: object.id,
                len: object.len,
            };
            let parts: Vec<_> = objects.iter().map(part).collect();
            let spec = ModelSpec::try_new(&parts, &[]);
            let expected = "objects of one length each";
            spec.map(|spec| spec.key())
                .map_err(|_| ClientError::Unexpected { expected }.into())
        };
        let parts = objects.chunks(most.max(1)).map(key);
        let parts = parts.collect::<Result<Vec<_>, DeviceError>>()?;
        let model = match parts.as_slice() {
            [only] => only.0,
            several => {
                let keys: Vec<u8> = several.iter().flat_map(|key| key.0.0).collect();
                Digest::of(&keys)
            }
        };
        Ok(Self {
            model,
            bytes: objects.iter().map(|object| object.len).sum(),
            parts,
        })
    }

    pub(super) fn parts(&self) -> &[ModelKey] {
        &self.parts
    }

    /// Presence of the whole model, of its parts' presence: state, and number of bytes that are not
    /// on the device.
    pub(super) fn presence(&self, parts: &[ModelEntry]) -> (ModelState, u64) {
        let of = |key: &ModelKey| parts.iter().find(|part| part.model == *key);
        let entries: Vec<_> = self.parts.iter().filter_map(of).collect();
        let resident = |part: &&ModelEntry| part.bytes - part.bytes_left.min(part.bytes);
        let here: u64 = entries.iter().map(resident).sum();
        let all = |state| {
            let same = entries.iter().filter(|part| part.state == state);
            same.count() == self.parts.len()
        };
        let state = if all(ModelState::Resident) {
            ModelState::Resident
        } else if entries.iter().any(|part| part.state == ModelState::Loading) {
            ModelState::Loading
        } else {
            ModelState::Absent
        };
        (state, self.bytes.saturating_sub(here))
    }
}

/// The latest models that a process named, the oldest first.
#[derive(Debug, Default)]
pub(super) struct NamedModels(VecDeque<NamedModel>);

impl NamedModels {
    /// Adds a model. The oldest leave when all keys no longer fit one question.
    pub fn add(&mut self, named: &NamedModel) {
        if named.parts.is_empty() || self.0.contains(named) {
            return;
        }
        self.0.push_back(named.clone());
        let keys = |all: &VecDeque<NamedModel>| -> usize {
            all.iter().map(|named| named.parts.len()).sum()
        };
        while self.0.len() > 1 && keys(&self.0) > MAX_NAMED_MODELS {
            self.0.pop_front();
        }
    }

    pub fn list(&self) -> Vec<NamedModel> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(from: u32, count: u32) -> Vec<ObjectRef> {
        let numbers = from..from + count;
        numbers.map(|at| ObjectRef::of(&at.to_le_bytes())).collect()
    }

    fn entry(model: ModelKey, state: ModelState, bytes_left: u64) -> ModelEntry {
        ModelEntry {
            model,
            state,
            bytes: if state == ModelState::Absent { 0 } else { 8 },
            bytes_left,
        }
    }

    #[test]
    fn a_model_is_there_when_all_its_parts_are() {
        use ModelState::{Absent, Loading, Resident};

        let named = NamedModel::new(&objects(0, 4), 2).unwrap();
        let [first, second] = named.parts() else {
            panic!("expected two parts");
        };
        assert_eq!(named.bytes, 16);
        let presence =
            |one, other| named.presence(&[entry(*second, other, 0), entry(*first, one, 0)]);
        assert_eq!(presence(Resident, Resident), (Resident, 0));
        assert_eq!(presence(Resident, Absent), (Absent, 8));
        assert_eq!(presence(Loading, Absent).0, Loading);
        assert_eq!(named.presence(&[]), (Absent, 16));
    }

    #[test]
    fn a_key_does_not_depend_on_the_order_of_the_objects() {
        let mut other = objects(0, 3);
        other.reverse();
        let model = |objects: &[ObjectRef]| NamedModel::new(objects, 9).unwrap().model;
        assert_eq!(model(&other), model(&objects(0, 3)));
        assert_ne!(model(&objects(1, 3)), model(&objects(0, 3)));
    }

    #[test]
    fn as_many_models_are_known_as_one_question_takes() {
        let mut all = NamedModels::default();
        for number in 0..MAX_NAMED_MODELS as u32 + 2 {
            let named = NamedModel::new(&objects(number, 1), 9).unwrap();
            all.add(&named);
            all.add(&named);
        }
        assert_eq!(all.list().len(), MAX_NAMED_MODELS);
        let first = NamedModel::new(&objects(2, 1), 9).unwrap();
        assert_eq!(all.list()[0], first);
    }
}
