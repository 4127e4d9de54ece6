//! The inference benchmark suite of the paper (Tetris table 4): all 21 models with their memory.
//!
//! **From the paper:** sizes; tensors and private memory of Use, Lstm, Dssm and Textcnn69 (see the
//! catalog), and of Vgg19 (5.2: 549 and 95.4 MB); the 77 MB that variants of Vgg19 share (5.2).
//! **Fitted:** private memory of Bit-M: 64 GB hold 14 instances with copies and 74 with shared
//! tensors (5.2); and of the models of figure 11(a). Its 18.8 % with two variants and 36.3 %
//! with 32 are both `s (1 - 1/n)` with 37.5 % of an instance's memory for `s`, the part that variants
//! share. **Assumed:** the private memory of the others is Vgg19's; all models but Fastspeech2 and Use
//! support batching (5.3 names these two as examples).

use serde::Serialize;

use super::model::{
    BATCHES, CPU_MILLIS, DSSM, FASTSPEECH2, LSTM, PaperModel, RESNET152, SSD, STT, TEXTCNN,
    THREADS, USE, USE_QA,
};

/// Origin of a model's private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateFrom {
    /// The paper's text, directly or by its formula.
    Paper,
    /// A fit to a figure of the paper.
    Fitted,
    /// An assumption.
    Assumed,
}

impl PrivateFrom {
    /// Name of the origin in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

/// A model of table 4 with the memory of its instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TableModel {
    /// Name as in table 4.
    pub name: &'static str,
    /// Size in table 4, in megabytes.
    pub file_mb: u64,
    /// Size of the tensors in memory, in megabytes: `M_tensor` (5.2).
    pub tensor_mb: u64,
    /// Private memory of an instance, in megabytes: `M_others` (5.2).
    pub own_mb: u64,
    /// Origin of the private memory.
    pub own_from: PrivateFrom,
    /// Part of the tensors that variants made by transfer learning share, in megabytes: all but the
    /// top dense layer of 1,000 classes. `None` for models without such variants (figure 11).
    pub shared_mb: Option<u64>,
    /// True if the model supports batching.
    pub batchable: bool,
}

/// Private memory of Vgg19 (5.2), in megabytes, which models without a figure have as well.
const VGG19_OWN_MB: u64 = 95;

const fn assumed(name: &'static str, file_mb: u64) -> TableModel {
    TableModel {
        name,
        file_mb,
        tensor_mb: file_mb,
        own_mb: VGG19_OWN_MB,
        own_from: PrivateFrom::Assumed,
        shared_mb: None,
        batchable: true,
    }
}

const fn of(model: PaperModel, file_mb: u64) -> TableModel {
    TableModel {
        name: model.name,
        file_mb,
        tensor_mb: model.tensor_mb,
        own_mb: model.own_mb,
        own_from: if model.own_from_paper {
            PrivateFrom::Paper
        } else {
            PrivateFrom::Assumed
        },
        shared_mb: None,
        batchable: model.batchable,
    }
}

/// Creates a model of figure 11 whose variants retrain a dense layer of `features` x 1,000 weights
/// of four bytes. The private memory is fitted: the shared part is 37.5 % of an instance's memory.
const fn retrained(name: &'static str, file_mb: u64, features: u64) -> TableModel {
    let shared_mb = file_mb - features * 4 / 1_000;
    TableModel {
        shared_mb: Some(shared_mb),
        own_mb: shared_mb * 1_000 / 375 - file_mb,
        own_from: PrivateFrom::Fitted,
        ..assumed(name, file_mb)
    }
}

/// All models, in the order of table 4.
pub const TABLE_4: [TableModel; 21] = [
    TableModel {
        own_mb: 815,
        own_from: PrivateFrom::Fitted,
        ..assumed("Bit-M", 3_500)
    },
    assumed("LaBSE", 1_800),
    assumed("Bert-qa", 1_300),
    assumed("Electra", 1_300),
    of(USE, 980),
    assumed("Centernet", 731),
    of(USE_QA, 568),
    assumed("Use-large", 563),
    TableModel {
        own_from: PrivateFrom::Paper,
        shared_mb: Some(77),
        ..assumed("Vgg19", 549)
    },
    assumed("Bert", 392),
    retrained("EfficientNetB7", 255, 2_560),
    TableModel {
        shared_mb: Some(super::RESNET152_SHARED_MB),
        ..of(RESNET152, 231)
    },
    retrained("InceptionResnetV2", 214, 1_536),
    of(STT, 176),
    retrained("Resnet101", 171, 2_048),
    of(FASTSPEECH2, 119),
    retrained("InceptionV3", 92, 2_048),
    of(SSD, 29),
    of(DSSM, 25),
    of(LSTM, 23),
    of(TEXTCNN, 11),
];

impl TableModel {
    /// Memory of `instances` instances with a copy of the tensors each, in megabytes:
    /// `M_baseline = I (M_tensor + M_others)` (5.2).
    pub const fn copied_mb(&self, instances: u64) -> u64 {
        instances * (self.tensor_mb + self.own_mb)
    }

    /// Memory of `instances` instances that share the tensors, in megabytes:
    /// `M_ts = M_tensor + I M_others` (5.2).
    pub const fn shared_with_mb(&self, instances: u64) -> u64 {
        self.tensor_mb + instances * self.own_mb
    }

    /// Number of configurations in C x B x P.
    pub const fn configurations(&self) -> u64 {
        let batches = if self.batchable { BATCHES.len() } else { 1 };
        (CPU_MILLIS.len() * batches * THREADS.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{MODELS, ModelAssumptions};
    use std::collections::BTreeSet;

    #[test]
    fn the_table_has_21_models_in_descending_order_of_their_size() {
        let names: BTreeSet<&str> = TABLE_4.iter().map(|model| model.name).collect();
        assert_eq!(names.len(), 21);
        assert!(TABLE_4.is_sorted_by(|a, b| a.file_mb >= b.file_mb));
    }

    #[test]
    fn models_of_the_applications_are_those_of_the_catalog() {
        let max_cpu_millis = ModelAssumptions::default().max_cpu_millis;
        for model in MODELS {
            let mut same = TABLE_4.iter().filter(|entry| entry.name == model.name);
            let entry = same.next().unwrap();
            assert_eq!(
                (entry.tensor_mb, entry.own_mb),
                (model.tensor_mb, model.own_mb)
            );
            let profile = model.profile(max_cpu_millis).unwrap();
            let count = profile.configurations().len() as u64;
            assert_eq!(entry.configurations(), count, "{}", model.name);
        }
    }
}
