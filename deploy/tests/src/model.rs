//! A model small enough for a ConfigMap.

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use tetris_store_layout::ObjectId;

/// Tensors of the model.
pub const TENSORS: usize = 4;
/// Bytes of each: over the 64 KiB below which tensors are packed together, so that each is an object.
pub const TENSOR_BYTES: usize = 128 << 10;

/// A safetensors file; the same bytes at every call.
///
/// # Errors
/// None that happens with these tensors.
pub fn bytes() -> anyhow::Result<Vec<u8>> {
    bytes_of(0)
}

/// One of several such files, which have no tensor in common.
///
/// # Errors
/// As [`bytes`].
pub fn bytes_of(model: u32) -> anyhow::Result<Vec<u8>> {
    let data: Vec<Vec<u8>> = (0..TENSORS).map(|tensor| contents(model, tensor)).collect();
    let views = data.iter().enumerate().map(|(index, data)| {
        let shape = vec![TENSOR_BYTES / 4];
        let view = TensorView::new(Dtype::F32, shape, data)?;
        Ok((format!("tensor.{index}"), view))
    });
    let views = views.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(serialize(views, None)?)
}

/// Returns the identifier and the length of each of its tensors, as a store has them.
///
/// # Errors
/// As [`bytes`].
pub fn objects() -> anyhow::Result<Vec<(String, u64)>> {
    let file = bytes()?;
    let tensors = SafeTensors::deserialize(&file)?;
    let objects = tensors.tensors().into_iter().map(|(_, tensor)| {
        let id = ObjectId::of(tensor.data());
        (id.to_string(), tensor.data().len() as u64)
    });
    Ok(objects.collect())
}

/// Different for each tensor, so that no two are one object.
fn contents(model: u32, tensor: usize) -> Vec<u8> {
    let words = (0_u32..).take(TENSOR_BYTES / 4);
    let words = words.map(|word| {
        (word ^ model << 24)
            .wrapping_mul(0x9e37_79b9)
            .rotate_left(tensor as u32)
    });
    words.flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tetris_agent::store_location::StoreLocation;
    use tetris_agent::{Agent, LoadOptions};
    use tetris_store_layout::{CreateOptions, Store};

    use super::*;

    #[test]
    fn the_agent_loads_the_model_and_a_config_map_can_carry_it() {
        let bytes = bytes().unwrap();
        // In base64, with the rest of the object, below the 1 MiB that the API server takes.
        assert!(bytes.len() * 4 / 3 < 900 << 10, "{}", bytes.len());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, bytes).unwrap();
        let model = Agent::at(&StoreLocation::named(dir.path().join("no-store")))
            .load(&path)
            .unwrap();
        let tensors: Vec<_> = model
            .tensors()
            .map(|tensor| tensor.bytes().to_vec())
            .collect();
        assert_eq!(tensors.len(), TENSORS);
        assert!(tensors.iter().all(|tensor| tensor.len() == TENSOR_BYTES));
        assert!(tensors.windows(2).all(|two| two[0] != two[1]));
    }

    #[test]
    fn models_have_no_tensor_in_common() {
        let mut names = BTreeSet::new();
        for model in 0..4 {
            let bytes = bytes_of(model).unwrap();
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            names.extend(
                tensors
                    .tensors()
                    .iter()
                    .map(|(_, tensor)| ObjectId::of(tensor.data()).to_string()),
            );
        }
        assert_eq!(names.len(), 4 * TENSORS);
    }

    #[test]
    fn objects_are_those_that_a_store_has() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = dir.path().join("model.safetensors");
        std::fs::write(&path, bytes().unwrap()).unwrap();
        let place = dir.path().join("store");
        let store = Store::create(&place, &CreateOptions::default()).unwrap();
        // The file is new, and is shared all the same.
        let options = LoadOptions::default().with_min_shared_bytes(0);
        let agent = Agent::open_store(&place).unwrap();
        let _held = agent.load_with(&path, &options).unwrap();
        let listed = store.objects().unwrap().objects;
        let listed = listed
            .iter()
            .map(|entry| (entry.object.id.to_string(), entry.object.len));
        let expected: BTreeSet<_> = objects().unwrap().into_iter().collect();
        assert_eq!(listed.collect::<BTreeSet<_>>(), expected);
    }
}
