//! A model in a store: made up, or from a file.

mod content;
mod file;
mod object;
mod publish;
mod shapes;

use serde::{Deserialize, Serialize};
use tetris_gpu_mirror::client::Model as Wanted;
use tetris_store_layout::ObjectRef;

pub(crate) use file::{Header, write_file};
pub(crate) use publish::{import, make};
pub(crate) use shapes::shapes;

/// A tensor, which is one object of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Type of its elements, as safetensors headers spell it.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its bytes.
    #[serde(with = "object")]
    pub object: ObjectRef,
}

/// A model: its tensors in the order of the file, which is the order in which they are used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// All of them, none of which is empty or occurs twice.
    pub tensors: Vec<Tensor>,
}

impl Model {
    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.object.len).sum()
    }

    /// Its objects, as a client asks for them.
    pub fn wanted(&self) -> Wanted {
        Wanted::Objects(self.tensors.iter().map(|tensor| tensor.object).collect())
    }

    /// The first tensors, of together at least `bytes`; all if there are not as many.
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

    /// Two models of about the same size that share nothing, together this one.
    pub fn halves(&self) -> (Self, Self) {
        let first = self.beginning(self.bytes() / 2);
        let rest = self.tensors.get(first.tensors.len()..).unwrap_or_default();
        let tensors = rest.to_vec();
        (first, Self { tensors })
    }
}
