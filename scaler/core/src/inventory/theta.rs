//! Tensor similarity: the share of a model that a node has.

use serde::Serialize;
use tetris_store_layout::ObjectId;

use super::node_set::NodeSet;
use super::{Inventory, ModelTensors};
use crate::numbered::Numbered as _;

/// Tensor similarity theta of a model and a node, as numerator and denominator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Similarity {
    /// Bytes of the model that the node has: `Mem(T_i and T_store_j)`.
    pub resident_bytes: u64,
    /// All bytes of the model: `Mem(T_i)`.
    pub total_bytes: u64,
}

impl Similarity {
    /// Returns theta in thousandths, rounded down; 1,000 for a model without tensors, which lacks
    /// none.
    pub fn permille(self) -> u32 {
        let scaled = u128::from(self.resident_bytes) * 1_000;
        let permille = scaled.checked_div(u128::from(self.total_bytes));
        // The share is at most one.
        permille.map_or(1_000, |permille| permille.min(1_000) as u32)
    }

    /// Returns the similarity of the node and its GPU together: an instance needs the tensors on both.
    pub const fn with(self, on_gpu: Self) -> Self {
        Self {
            resident_bytes: self.resident_bytes.saturating_add(on_gpu.resident_bytes),
            total_bytes: self.total_bytes.saturating_add(on_gpu.total_bytes),
        }
    }

    /// Bytes that a first instance would add to the node.
    pub const fn missing_bytes(self) -> u64 {
        self.total_bytes.saturating_sub(self.resident_bytes)
    }
}

/// Tensor similarities of one model and all nodes.
#[derive(Clone, Debug)]
pub struct Thetas<'a> {
    inventory: &'a Inventory,
    /// Resident bytes by node number.
    resident_bytes: Vec<u64>,
    total_bytes: u64,
}

impl Thetas<'_> {
    /// Returns theta of one node, or `None` for an unknown node.
    pub fn of(&self, node: &str) -> Option<Similarity> {
        let number = self.inventory.names.get(node)?;
        self.numbered(*number)
    }

    /// Returns theta of all nodes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Similarity)> {
        let names = self.inventory.names.iter();
        names.filter_map(|(name, &number)| Some((name.as_str(), self.numbered(number)?)))
    }

    fn numbered(&self, number: u16) -> Option<Similarity> {
        Some(Similarity {
            resident_bytes: *self.resident_bytes.get(usize::from(number))?,
            total_bytes: self.total_bytes,
        })
    }
}

impl Inventory {
    /// Computes theta of `model` for one node, over the union of all its objects (Tetris 3.2,
    /// "Scheduling"). Returns `None` for an unknown node.
    pub fn theta(&self, model: &ModelTensors, node: &str) -> Option<Similarity> {
        let node = *self.names.get(node)?;
        let here = model.objects().iter().filter(|(id, _)| {
            let number = self.numbers.get(id);
            let object = number.map(|&number| self.objects.at(number as usize));
            object.is_some_and(|object| object.nodes.contains(node))
        });
        Some(Similarity {
            // The sum is a part of the model's total, which fits.
            resident_bytes: here.map(|(_, bytes)| bytes).sum(),
            total_bytes: model.total_bytes(),
        })
    }

    /// Computes theta of `model` for one node that gets the tensors of `others` as well; for an
    /// unknown node, as if it had no others.
    pub fn theta_beside(
        &self,
        model: &ModelTensors,
        node: &str,
        others: &[&ModelTensors],
    ) -> Similarity {
        let node = self.names.get(node).copied();
        let is_here = |id: &ObjectId| {
            let number = self.numbers.get(id);
            let object = number.and_then(|&number| self.objects.get(number as usize));
            object
                .zip(node)
                .is_some_and(|(object, node)| object.nodes.contains(node))
        };
        let here = model.objects().iter().filter(|(id, _)| {
            let mut others = others.iter();
            others.any(|other| other.contains(id)) || is_here(id)
        });
        Similarity {
            // The sum is a part of the model's total, which fits.
            resident_bytes: here.map(|(_, bytes)| bytes).sum(),
            total_bytes: model.total_bytes(),
        }
    }

    /// Computes theta of `model` for all nodes.
    pub fn thetas(&self, model: &ModelTensors) -> Thetas<'_> {
        let mut sums = vec![0; self.nodes.len().next_multiple_of(64)];
        let mut many: Vec<(&[u64], u64)> = Vec::new();
        for (set, bytes) in self.distinct_sets(model) {
            if let Some(words) = set.words() {
                many.push((words, bytes));
            }
            for &node in set.list().unwrap_or_default() {
                let sum = sums.at_mut(usize::from(node));
                *sum = bytes.wrapping_add(*sum);
            }
        }
        for eight in many.chunks(8) {
            add_eight(&mut sums, eight);
        }
        Thetas {
            inventory: self,
            resident_bytes: sums,
            total_bytes: model.total_bytes(),
        }
    }

    /// Returns the distinct node sets of the model's objects, each with the sum of its objects'
    /// bytes.
    fn distinct_sets(&self, model: &ModelTensors) -> Vec<(&NodeSet, u64)> {
        let objects = model.objects().iter().filter_map(|(id, bytes)| {
            let number = self.numbers.get(id)?;
            Some((&self.objects.get(*number as usize)?.nodes, *bytes))
        });
        let mut sets: Vec<(&NodeSet, u64)> = objects.collect();
        sets.sort_unstable_by_key(|(set, _)| set.fingerprint());
        sets.dedup_by(|(set, bytes), (first, sum)| {
            let same = set.same(first);
            if same {
                *sum = sum.wrapping_add(*bytes);
            }
            same
        });
        sets
    }
}

/// Adds up to eight objects' bytes to the sums of the nodes that have them.
///
/// For each node, the bits of eight objects form a byte, and a table has the sum for each of 256
/// bytes: one addition per node and eight objects, for any number of set bits. Sums are parts of
/// the model's total, so none overflows.
fn add_eight(sums: &mut [u64], eight: &[(&[u64], u64)]) {
    let mut table = [0_u64; 256];
    for (pattern, sum) in table.iter_mut().enumerate() {
        let picked = eight.iter().enumerate();
        let picked = picked.filter(|(bit, _)| pattern >> bit & 1 == 1);
        *sum = picked.fold(0, |sum, (_, (_, bytes))| bytes.wrapping_add(sum));
    }
    for (at, nodes) in sums.chunks_exact_mut(64).enumerate() {
        let mut words = [0_u64; 8];
        for (word, (bits, _)) in words.iter_mut().zip(eight) {
            *word = bits.get(at).copied().unwrap_or(0);
        }
        for (column, nodes) in nodes.chunks_exact_mut(8).enumerate() {
            for (pattern, sum) in patterns(words, column).into_iter().zip(nodes) {
                let more = *table.at(usize::from(pattern));
                *sum = more.wrapping_add(*sum);
            }
        }
    }
}

/// Returns for each of eight nodes a bit per object: bit i of byte j is bit `8 column + j` of word
/// i.
fn patterns(words: [u64; 8], column: usize) -> [u8; 8] {
    let rows = words.map(|word| *word.to_le_bytes().at(column));
    transposed(u64::from_le_bytes(rows)).to_le_bytes()
}

/// Transposes a matrix of 8 x 8 bits: swaps single bits, then pairs, then fours.
const fn transposed(mut rows: u64) -> u64 {
    let mut swap = (rows ^ (rows >> 7)) & 0x00aa_00aa_00aa_00aa;
    rows ^= swap ^ (swap << 7);
    swap = (rows ^ (rows >> 14)) & 0x0000_cccc_0000_cccc;
    rows ^= swap ^ (swap << 14);
    swap = (rows ^ (rows >> 28)) & 0x0000_0000_f0f0_f0f0;
    rows ^ swap ^ (swap << 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_mirrored() {
        for (row, column) in (0..8).flat_map(|row| (0..8).map(move |column| (row, column))) {
            assert_eq!(transposed(1 << (8 * row + column)), 1 << (8 * column + row));
        }
    }

    #[test]
    fn theta_is_rounded_down_and_a_model_without_tensors_lacks_none() {
        let theta = |resident_bytes, total_bytes| Similarity {
            resident_bytes,
            total_bytes,
        };
        assert_eq!(theta(2, 3).permille(), 666);
        assert_eq!(theta(0, 0).permille(), 1_000);
        assert_eq!(theta(u64::MAX, u64::MAX).permille(), 1_000);
        assert_eq!(theta(2, 3).missing_bytes(), 1);
    }
}
