//! Deterministic models with the shapes of real architectures.
//!
//! A tensor's content depends on the seed and on its *origin*, a text such as
//! `resnet50/backbone/fc`. Tensors of one origin have the same bytes in all models of a family: a
//! head-retrained variant shares its backbone.

pub mod apps;
pub mod cnn;
pub mod table4;
pub mod transformer;
mod weights;
mod writer;

pub use weights::fill;
pub use writer::write;

/// Storage format of the synthetic weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Single precision, 4 bytes.
    F32,
    /// The upper half of single precision, 2 bytes.
    Bf16,
}

impl Kind {
    /// Number of bytes per number.
    pub fn size(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

/// Specification of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Its name in the file.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Storage format of its numbers.
    pub kind: Kind,
    /// Text that determines its content, together with the seed.
    pub origin: String,
}

impl Spec {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.kind.size()
    }

    /// Returns true if the tensor has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Specification of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name, for tables and the file.
    pub name: String,
    /// Its tensors.
    pub tensors: Vec<Spec>,
}

impl Model {
    /// Creates a model whose tensors all have `family` as the first part of their origin.
    pub fn new(name: &str, family: &str, kind: Kind, tensors: Vec<(String, Vec<u64>)>) -> Self {
        let tensors = tensors
            .into_iter()
            .map(|(tensor, shape)| Spec {
                origin: format!("{family}/{tensor}"),
                name: tensor,
                shape,
                kind,
            })
            .collect();
        Self {
            name: name.to_owned(),
            tensors,
        }
    }

    /// Returns a variant in which the tensors selected by `is_retrained` have other weights.
    pub fn retrained(&self, name: &str, is_retrained: impl Fn(&str) -> bool) -> Self {
        let mut variant = Self {
            name: name.to_owned(),
            tensors: self.tensors.clone(),
        };
        for tensor in variant
            .tensors
            .iter_mut()
            .filter(|tensor| is_retrained(&tensor.name))
        {
            tensor.origin = format!("{name}/{}", tensor.origin);
        }
        variant
    }

    /// Length of all tensors, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(Spec::len).sum()
    }
}

/// Length of the distinct tensors of several models in bytes: each origin counts once.
pub fn distinct_bytes<'a>(models: impl IntoIterator<Item = &'a Model>) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let tensors = models.into_iter().flat_map(|model| &model.tensors);
    tensors
        .filter(|tensor| seen.insert(tensor.origin.as_str()))
        .map(Spec::len)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_share_all_but_the_head() {
        let base = cnn::resnet("resnet50", [3, 4, 6, 3]);
        let variant = base.retrained("resnet50-cars", |name| name.starts_with("fc."));
        let head = 4 * (2048 * 1000 + 1000);
        assert_eq!(distinct_bytes([&base, &variant]), base.bytes() + head);
    }

    #[test]
    fn published_sizes_are_met() {
        let millions = |model: &Model| model.bytes() as f64 / 4e6;
        assert!((millions(&transformer::bert("b", 768, 12, 3072, 30_522)) - 109.5).abs() < 0.1);
        assert!((millions(&cnn::resnet("r", [3, 4, 6, 3])) - 25.6).abs() < 0.1);
        assert!((millions(&cnn::vgg19()) - 143.7).abs() < 0.1);
    }
}
