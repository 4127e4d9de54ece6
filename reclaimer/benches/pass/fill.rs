//! A store of 100,000 objects.

use anyhow::Result;
use tetris_store_layout::{
    Access, Digest, Dtype, Manifest, ManifestKind, ManifestObject, ManifestTensor, Mapping,
    ObjectKind, Store, TensorId, TensorPlace,
};

pub const MODELS: u64 = 1_000;
pub const OBJECTS_PER_MODEL: u64 = 100;
/// Objects that stay mapped.
pub const MAPPED: usize = 1_000;

/// Models of small tensors, each its own object, so that the number of objects is what
/// counts.
pub fn fill(store: &Store) -> Result<Vec<Mapping>> {
    let mut mapped = Vec::new();
    for model in 0..MODELS {
        let mut manifest = Manifest {
            kind: ManifestKind::Safetensors,
            source_size: 8 + OBJECTS_PER_MODEL * 8,
            data_start: 8,
            header_digest: Digest::of(&model.to_le_bytes()),
            metadata: Vec::new(),
            objects: Vec::new(),
            tensors: Vec::new(),
        };
        for number in 0..OBJECTS_PER_MODEL {
            let bytes = (model * OBJECTS_PER_MODEL + number).to_le_bytes();
            let published = store.publish(&bytes, Access::ReadOnly)?;
            if mapped.len() < MAPPED && number % 10 == 0 {
                mapped.push(published.mapping);
            }
            manifest.objects.push(ManifestObject {
                object: published.object,
                kind: ObjectKind::Tensor,
            });
            manifest.tensors.push(ManifestTensor {
                name: format!("layers.{number}.weight"),
                dtype: Dtype::U8,
                shape: vec![8],
                id: TensorId::of(&bytes),
                len: 8,
                source_offset: number * 8,
                place: Some(TensorPlace {
                    object: u32::try_from(number)?,
                    offset: 0,
                }),
            });
        }
        store.publish_manifest(&manifest)?;
    }
    Ok(mapped)
}
