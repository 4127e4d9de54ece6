//! Products with the matrices of a model, and their expected results.

mod pass;
mod reference;
mod weights;

use crate::compute::{Element, MAX_SIDE};
use tetris_store_layout::ObjectRef;

use crate::model::{BenchModel, Tensor};

pub(crate) use pass::{Pass, check};
pub(crate) use reference::{Expected, Rows, numbers};
pub(crate) use weights::Weights;

/// A tensor that is a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelMatrix {
    pub name: String,
    pub object: ObjectRef,
    pub rows: u32,
    pub columns: u32,
    pub element: Element,
}

/// The matrices of a model in the order of its file: tensors of two dimensions with elements of
/// BF16 or F32.
pub(crate) fn matrices(model: &BenchModel) -> Vec<ModelMatrix> {
    model.tensors.iter().filter_map(matrix).collect()
}

fn matrix(tensor: &Tensor) -> Option<ModelMatrix> {
    let element = match tensor.dtype.as_str() {
        "BF16" => Element::Bf16,
        "F32" => Element::F32,
        _ => return None,
    };
    let &[rows, columns] = tensor.shape.as_slice() else {
        return None;
    };
    let side = |length: usize| {
        let length = u32::try_from(length).ok()?;
        (1..=MAX_SIDE).contains(&length).then_some(length)
    };
    Some(ModelMatrix {
        name: tensor.name.clone(),
        object: tensor.object,
        rows: side(rows)?,
        columns: side(columns)?,
        element,
    })
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::{Digest, ObjectId};

    use super::*;

    fn tensor(dtype: &str, shape: &[usize]) -> Tensor {
        let len = shape.iter().product::<usize>() as u64 * 2;
        Tensor {
            name: format!("{dtype} {shape:?}"),
            dtype: dtype.to_owned(),
            shape: shape.to_vec(),
            object: ObjectRef {
                id: ObjectId(Digest::of(dtype.as_bytes())),
                crc: 0,
                len,
            },
        }
    }

    #[test]
    fn matrices_have_two_dimensions_and_elements_that_can_be_multiplied() {
        let tensors = [
            tensor("BF16", &[3, 4]),
            tensor("BF16", &[12]),
            tensor("F16", &[3, 4]),
            tensor("F32", &[5, 2]),
            tensor("BF16", &[2, 3, 2]),
        ];
        let matrices_found = matrices(&BenchModel {
            tensors: tensors.to_vec(),
        });
        let dimensions: Vec<_> = matrices_found
            .iter()
            .map(|matrix| (matrix.rows, matrix.columns, matrix.element))
            .collect();
        assert_eq!(dimensions, [(3, 4, Element::Bf16), (5, 2, Element::F32)]);
    }
}
