//! Conditions beyond the form of the JSON: names are unique, lengths follow from dtype and shape,
//! ranges cover the data exactly.

use std::collections::HashSet;

use super::{HeaderProblem, TensorInfo};

/// Puts `tensors` in file order and checks them against one another and against the `data_len` bytes behind the header.
pub(super) fn in_file_order(
    mut tensors: Vec<TensorInfo>,
    data_len: u64,
) -> Result<Vec<TensorInfo>, HeaderProblem> {
    // Before the order changes, so that of two equal names the second is the one that is reported
    unique_names(&tensors)?;
    tensors.sort_unstable_by(|a, b| (a.begin, a.end, &a.name).cmp(&(b.begin, b.end, &b.name)));
    let mut covered = 0;
    for tensor in &tensors {
        range(tensor, covered)?;
        covered = tensor.end;
    }
    // Equality makes every range lie inside the file: each ends at or before `covered`
    if covered != data_len {
        return Err(HeaderProblem::Uncovered {
            expected: covered,
            found: data_len,
        });
    }
    Ok(tensors)
}

fn unique_names(tensors: &[TensorInfo]) -> Result<(), HeaderProblem> {
    let mut seen = HashSet::with_capacity(tensors.len());
    match tensors
        .iter()
        .find(|tensor| !seen.insert(tensor.name.as_str()))
    {
        None => Ok(()),
        Some(tensor) => Err(HeaderProblem::DuplicateName {
            name: tensor.name.clone(),
        }),
    }
}

/// Checks that `tensor` begins at `expected_begin` and is as long as its dtype and shape say.
fn range(tensor: &TensorInfo, expected_begin: u64) -> Result<(), HeaderProblem> {
    let name = || tensor.name.clone();
    if tensor.begin != expected_begin {
        return Err(HeaderProblem::Offsets {
            name: name(),
            expected_begin,
            found_begin: tensor.begin,
            found_end: tensor.end,
        });
    }
    let found = tensor
        .end
        .checked_sub(tensor.begin)
        .ok_or_else(|| HeaderProblem::Reversed {
            name: name(),
            begin: tensor.begin,
            end: tensor.end,
        })?;
    let expected = byte_len(tensor)?;
    if found != expected {
        return Err(HeaderProblem::SizeMismatch {
            name: name(),
            expected,
            found,
        });
    }
    Ok(())
}

/// Length in bytes from dtype and shape. Multiplied from the left and in bits, as the reference does, so that both refuse the same
/// shapes: `[2^63, 2, 0]` overflows, `[0, 2^63, 2]` does not.
fn byte_len(tensor: &TensorInfo) -> Result<u64, HeaderProblem> {
    let bits = tensor
        .shape
        .iter()
        .try_fold(1_u64, |product, dimension| product.checked_mul(*dimension))
        .and_then(|elements| elements.checked_mul(tensor.dtype.bitsize() as u64))
        .ok_or_else(|| HeaderProblem::Overflow {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
        })?;
    if !bits.is_multiple_of(8) {
        return Err(HeaderProblem::PartialByte {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            bits,
        });
    }
    Ok(bits / 8)
}
