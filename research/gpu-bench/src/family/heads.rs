//! Models that differ in one matrix.

use tetris_store_layout::{Access, Store};

use crate::BenchError;
use crate::model::BenchModel;
use crate::products::{ModelMatrix, matrices};

/// Distance in bytes between changed elements of a head.
const STEP: usize = 64;

/// Creates `count` models that share all objects but their last matrices, and publishes those. The
/// first is `model`.
pub(super) fn with_heads(
    store: &Store,
    model: &BenchModel,
    count: u32,
) -> Result<(Vec<BenchModel>, ModelMatrix), BenchError> {
    let head = matrices(model).pop();
    let head = head.ok_or_else(|| BenchError::Bug("expected matrices, found none".to_owned()))?;
    let mapping = store.map(&head.object, Access::ReadOnly)?;
    let mapping = mapping.ok_or(BenchError::NoObject(head.object.id))?;
    let mut models = vec![model.clone()];
    for number in 1..count {
        let mut bytes = mapping.to_vec();
        retrain(&mut bytes, number as usize);
        let object = store.publish(&bytes, Access::ReadOnly)?.object;
        let mut variant = model.clone();
        let ours = variant.tensors.iter_mut();
        for tensor in ours.filter(|tensor| tensor.name == head.name) {
            tensor.object = object;
        }
        models.push(variant);
    }
    Ok((models, head))
}

/// Changes the signs of some elements, different ones for each number: the sign is in the last byte
/// of a BF16 or F32 element.
fn retrain(bytes: &mut [u8], number: usize) {
    for element in bytes.chunks_exact_mut(4).step_by(STEP / 4 * number) {
        if let Some(sign) = element.last_mut() {
            *sign ^= 0x80;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_differ_in_signs_alone() {
        let before: Vec<u8> = (0..1024u32).map(|at| at as u8).collect();
        let mut heads = vec![before.clone()];
        for number in 1..4 {
            let mut head = before.clone();
            retrain(&mut head, number);
            let signs = |(one, other): (&u8, &u8)| one == other || one ^ other == 0x80;
            assert!(head.iter().zip(&before).all(signs));
            assert!(!heads.contains(&head));
            heads.push(head);
        }
    }
}
