//! Kinds of models in Torpor's evaluation.

use tetris_scaler_dispatch::gpu::{GpuModel, ObjectId, Part};

/// A kind of model. Torpor's own numbers are in figures that are images: all but the latencies of
/// table 3 is assumed. ResNet-101 and -152 take the 15 and 19 ms of the two models in the authors'
/// simulator (`node_simu.py`): with 26 ms their own figure 8 would ask one GPU for more than it has.
pub(super) struct Kind {
    /// Bytes of weights, in megabytes.
    pub mb: u64,
    /// Time of an inference, in microseconds.
    pub infer_us: u64,
    /// Part of it that follows the last byte of a load, in microseconds.
    pub after_load_us: u64,
    /// Memory of a native container on the GPU, in megabytes (table 1 where it has the model).
    pub native_mb: u64,
    /// Time in which a container starts, in microseconds (table 1 where it has the model).
    pub cold_us: u64,
    /// True for Bert-qa, whose SLO is longer.
    pub is_bert: bool,
}

const fn vision(mb: u64, infer_us: u64) -> Kind {
    Kind {
        mb,
        infer_us,
        after_load_us: 3_000,
        native_mb: 1_600,
        cold_us: 8_000_000,
        is_bert: false,
    }
}

/// Index of DenseNet-201.
pub(super) const DENSENET_201: usize = 4;
/// Index of ResNet-152.
pub(super) const RESNET_152: usize = 2;
/// Index of Bert-qa.
pub(super) const BERT: usize = 7;

/// The eight kinds: ResNet-50, -101, -152, DenseNet-169, -201, Inception-v3, EfficientNet, Bert-qa.
pub(super) const KINDS: [Kind; 8] = [
    vision(102, 10_000),
    vision(178, 15_000),
    vision(240, 19_000),
    vision(57, 27_000),
    vision(80, 31_000),
    vision(109, 15_000),
    vision(80, 20_000),
    Kind {
        mb: 1_340,
        infer_us: 40_000,
        after_load_us: 37_000,
        native_mb: 2_400,
        cold_us: 11_000_000,
        is_bert: true,
    },
];

impl Kind {
    /// The model of a function: `shared_permille` of its bytes are those of every function of this
    /// kind.
    pub(super) fn model(&self, kind: usize, function: u32, shared_permille: u64) -> GpuModel {
        let bytes = self.mb * 1_000_000;
        let shared = bytes * shared_permille / 1_000;
        let part = |object, bytes| Part {
            object: ObjectId(object),
            bytes,
        };
        let own_part = part(1_000 + u64::from(function), bytes - shared);
        let base = part(kind as u64, shared);
        GpuModel {
            parts: [base, own_part]
                .into_iter()
                .filter(|part| part.bytes > 0)
                .collect(),
            setup_us: 0,
            infer_us: self.infer_us,
            after_load_us: self.after_load_us,
        }
    }
}
