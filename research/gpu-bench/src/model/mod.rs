//! A model in a store: generated, or from a file.

mod content;
mod file;
mod object;
mod publish;
mod shapes;

use serde::{Deserialize, Serialize};
use tetris_gpu_client::WantedModel;
use tetris_store_layout::ObjectRef;

pub(crate) use file::{Header, write_file};
pub(crate) use publish::{import, make};
pub(crate) use shapes::shapes;

/// A tensor, stored as one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Type of its elements, as in safetensors headers.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The object with its bytes.
    #[serde(with = "object")]
    pub object: ObjectRef,
}

/// A model: its tensors in the order of the file, which is the order of their use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchModel {
    /// Its tensors. None is empty, and none occurs twice.
    pub tensors: Vec<Tensor>,
}

impl BenchModel {
    /// Length of all tensors, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.object.len).sum()
    }

    /// Its objects, as a client's request.
    pub fn wanted(&self) -> WantedModel {
        WantedModel::Objects(self.tensors.iter().map(|tensor| tensor.object).collect())
    }

    /// The first tensors that have at least `bytes` together, or all tensors if they have less.
    pub fn beginning(&self, bytes: u64) -> Self {
        let mut sum = 0;
        let first = self.tensors.iter().take_while(|tensor| {
            let take = sum < bytes;
            sum += tensor.object.len;
            take
        });
        Self {
            tensors: first.cloned().collect(),
        }
    }

    /// Splits the model into two of similar size without common tensors. `None` if one would be
    /// shorter than `least` bytes.
    pub fn halves(&self, least: u64) -> Option<(Self, Self)> {
        let split = |tensors: usize| {
            let (one, other) = self.tensors.split_at_checked(tensors)?;
            let half = |tensors: &[Tensor]| Self {
                tensors: tensors.to_vec(),
            };
            Some((half(one), half(other)))
        };
        let upper = self.beginning(self.bytes() / 2).tensors.len();
        let both = [upper, upper.saturating_sub(1)]
            .into_iter()
            .filter_map(split);
        let smaller = |(one, other): &(Self, Self)| one.bytes().min(other.bytes());
        let best = both.max_by_key(smaller);
        best.filter(|both| smaller(both) >= least.max(self.bytes() / 4).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(lengths: &[usize]) -> BenchModel {
        let tensor = |(at, len): (usize, &usize)| Tensor {
            name: at.to_string(),
            dtype: "U8".to_owned(),
            shape: vec![*len],
            object: ObjectRef::of(&vec![at as u8; *len]),
        };
        let tensors = lengths.iter().enumerate().map(tensor).collect();
        BenchModel { tensors }
    }

    #[test]
    fn halves_share_nothing_and_are_the_whole() {
        let whole = model(&[5, 1, 1, 1, 4]);
        let (one, other) = whole.halves(6).unwrap();
        assert_eq!((one.bytes(), other.bytes()), (6, 6));
        assert_eq!([one.tensors, other.tensors].concat(), whole.tensors);
        let (one, other) = model(&[3, 5]).halves(1).unwrap();
        assert_eq!((one.bytes(), other.bytes()), (3, 5));
    }

    #[test]
    fn what_has_no_halves_is_not_split() {
        for lengths in [&[5][..], &[1, 9], &[9, 1], &[]] {
            assert_eq!(model(lengths).halves(0), None, "{lengths:?}");
        }
        assert_eq!(model(&[5, 5]).halves(6), None);
    }

    #[test]
    fn a_beginning_ends_with_a_tensor() {
        let whole = model(&[5, 1, 4]);
        let bytes = |wanted| whole.beginning(wanted).bytes();
        assert_eq!(
            (bytes(1), bytes(5), bytes(6), bytes(7), bytes(99)),
            (5, 5, 6, 10, 10)
        );
    }

    #[test]
    fn an_order_for_a_child_has_the_model_as_it_is() {
        let whole = model(&[5, 1]);
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<BenchModel>(&text).unwrap(), whole);
    }
}
