//! The share of a model that is in another (Tetris, section 3.2).

use std::collections::HashMap;

use tetris_store_layout::{Manifest, TensorId};

/// The tensors of a model, each content counted once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TensorSet {
    bytes: HashMap<TensorId, u64>,
}

/// The common part of two models.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Similarity {
    /// Bytes of the first model's distinct tensors.
    pub a_bytes: u64,
    /// Bytes of the second model's distinct tensors.
    pub b_bytes: u64,
    /// Bytes of the tensors that both have.
    pub common_bytes: u64,
    /// Tensors that both have.
    pub common_tensors: u64,
}

impl TensorSet {
    /// The tensors of a model's files. A file kept whole counts as one tensor.
    pub fn of<'a>(manifests: impl IntoIterator<Item = &'a Manifest>) -> Self {
        let mut set = Self::default();
        for manifest in manifests {
            let tensors = manifest
                .tensors
                .iter()
                .map(|tensor| (tensor.id, tensor.len));
            set.bytes.extend(tensors.filter(|&(_, len)| len > 0));
            if manifest.tensors.is_empty() {
                let objects = manifest.objects.iter().map(|entry| entry.object);
                set.bytes
                    .extend(objects.map(|object| (TensorId(object.id.0), object.len)));
            }
        }
        set
    }

    /// Adds the tensors of another model: a set of several models counts each content once.
    pub fn add(&mut self, other: &Self) {
        self.bytes.extend(&other.bytes);
    }

    /// Mem(T): bytes of the distinct tensors.
    pub fn bytes(&self) -> u64 {
        self.bytes.values().sum()
    }

    /// Compares two models.
    pub fn similarity(&self, other: &Self) -> Similarity {
        let common = self
            .bytes
            .iter()
            .filter(|(id, _)| other.bytes.contains_key(id));
        let (count, bytes) = common.fold((0, 0), |(n, sum), (_, len)| (n + 1, sum + len));
        Similarity {
            a_bytes: self.bytes(),
            b_bytes: other.bytes(),
            common_bytes: bytes,
            common_tensors: count,
        }
    }
}

impl Similarity {
    /// theta(A, B) = Mem(A and B) / Mem(A): the share of A that B brings. 0 when A has no bytes.
    pub fn theta(&self) -> f64 {
        if self.a_bytes == 0 {
            return 0.0;
        }
        self.common_bytes as f64 / self.a_bytes as f64
    }

    /// theta(B, A).
    pub fn theta_reverse(&self) -> f64 {
        if self.b_bytes == 0 {
            return 0.0;
        }
        self.common_bytes as f64 / self.b_bytes as f64
    }
}
