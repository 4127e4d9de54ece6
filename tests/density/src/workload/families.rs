//! The synthetic groups, sized to the machine.

use std::path::Path;

use super::{Kind, Workload};
use crate::error::{Error, Result};
use crate::synthetic::transformer::{Decoder, bert, llama, lora, vit};
use crate::synthetic::{Model, apps, cnn, table4};
use crate::units::MIB;

/// Divisor of the available memory for one model, so that 16 private copies, their files and the
/// copies of the files fit.
const PART: u64 = 48;
/// Maximum length of a model by default, in bytes: a larger one only takes longer.
const LARGEST: u64 = 512 * MIB;
/// Number of adapters and of head-retrained variants in a family.
const VARIANTS: usize = 4;
/// Rank of the adapters.
const RANK: u64 = 16;

/// Size limits of the synthetic models.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    /// Length of the largest model, in bytes.
    pub model_bytes: u64,
    /// True for tiny models, for a smoke run.
    pub quick: bool,
}

impl Sizing {
    /// Returns the sizes for a machine with `available` bytes.
    pub fn for_machine(available: u64, quick: bool) -> Self {
        Self {
            model_bytes: (available / PART).min(LARGEST),
            quick,
        }
    }

    /// The largest candidate within `part` of the limit; the first (smallest) if none is.
    fn choose(self, candidates: Vec<Model>, part: f64) -> Option<Model> {
        let limit = (self.model_bytes as f64 * part) as u64;
        let fitting = candidates
            .iter()
            .rposition(|model| model.bytes() <= limit)
            .unwrap_or(0);
        let index = if self.quick { 0 } else { fitting };
        candidates.into_iter().nth(index)
    }
}

/// Generates the files of a group in a directory.
pub fn build(kind: Kind, sizing: Sizing, directory: &Path, seed: u64) -> Result<Workload> {
    let place = (directory, seed);
    match kind {
        Kind::Replicas => {
            let models: Vec<_> = sizing.choose(encoders(), 1.0).into_iter().collect();
            let about = "every instance loads the same model".to_owned();
            Workload::write(kind.name(), about, &models, vec![vec![0]], place)
        }
        Kind::Heads => {
            let base = sizing.choose(classifiers(), 0.4);
            let variant = |base: &Model, number: usize| {
                base.retrained(&format!("{}-variant{number}", base.name), |tensor| {
                    tensor.starts_with("fc.")
                })
            };
            let models: Vec<_> = base
                .iter()
                .flat_map(|base| (1..=VARIANTS).map(|number| variant(base, number)))
                .collect();
            let about =
                format!("{VARIANTS} variants of one classifier with the last layer retrained");
            Workload::write(kind.name(), about, &models, one_each(models.len()), place)
        }
        Kind::Lora => {
            let (base, decoder) = decoder(sizing);
            let adapters =
                (1..=VARIANTS).map(|number| lora(&format!("adapter{number}"), decoder, RANK));
            let models: Vec<_> = std::iter::once(base).chain(adapters).collect();
            let patterns = (1..=VARIANTS).map(|adapter| vec![0, adapter]).collect();
            let about =
                format!("one base model in bfloat16 and {VARIANTS} adapters of rank {RANK}");
            Workload::write(kind.name(), about, &models, patterns, place)
        }
        Kind::Unrelated => {
            let models = unrelated(sizing);
            let about = "models of different families, nothing in common".to_owned();
            Workload::write(kind.name(), about, &models, one_each(models.len()), place)
        }
        Kind::Mixed => mixed(sizing, place),
        Kind::Family => Err(Error::Usage(
            "a family needs the user's models: --base and --variants".into(),
        )),
    }
}

/// Generates one model of each size of Table 4.
pub fn build_table4(scale: f64, directory: &Path, seed: u64) -> Result<Workload> {
    let models = table4::models(scale);
    let about = format!(
        "the 21 models of Table 4 of the Tetris paper, {scale:.4} times their size, one per instance"
    );
    Workload::write(
        "table4",
        about,
        &models,
        one_each(models.len()),
        (directory, seed),
    )
}

fn one_each(count: usize) -> Vec<Vec<usize>> {
    (0..count).map(|model| vec![model]).collect()
}

fn encoders() -> Vec<Model> {
    vec![
        bert("bert-nano", 64, 2, 256, 2000),
        bert("bert-tiny", 128, 2, 512, 30_522),
        bert("bert-mini", 256, 4, 1024, 30_522),
        bert("minilm-l6", 384, 6, 1536, 30_522),
        bert("bert-base", 768, 12, 3072, 30_522),
        bert("bert-large", 1024, 24, 4096, 30_522),
    ]
}

fn classifiers() -> Vec<Model> {
    vec![
        narrow_classifier(),
        cnn::resnet("resnet50", [3, 4, 6, 3]),
        cnn::resnet("resnet101", [3, 4, 23, 3]),
        cnn::resnet("resnet152", [3, 8, 36, 3]),
    ]
}

/// A classifier of about a megabyte with the same kind of head, for smoke runs.
fn narrow_classifier() -> Model {
    let shapes = vec![
        ("conv1.weight".to_owned(), vec![64, 3, 7, 7]),
        ("conv2.weight".to_owned(), vec![256, 64, 3, 3]),
        ("bn.weight".to_owned(), vec![256]),
        ("fc.weight".to_owned(), vec![100, 256]),
        ("fc.bias".to_owned(), vec![100]),
    ];
    Model::new(
        "narrow-cnn",
        "narrow-cnn",
        crate::synthetic::Kind::F32,
        shapes,
    )
}

fn decoder(sizing: Sizing) -> (Model, Decoder) {
    let full = Decoder {
        hidden: 576,
        layers: 30,
        inner: 1536,
        key_value: 192,
        words: 49_152,
    };
    let small = Decoder {
        hidden: 288,
        layers: 6,
        inner: 768,
        key_value: 288,
        words: 32_000,
    };
    let tiny = Decoder {
        hidden: 64,
        layers: 2,
        inner: 192,
        key_value: 64,
        words: 1000,
    };
    let candidates = [
        ("llama-nano", tiny),
        ("llama-15m", small),
        ("llama-135m", full),
    ];
    let limit = sizing.model_bytes * 3 / 4;
    let fits = |decoder: Decoder| llama("", decoder).bytes() <= limit;
    let chosen = candidates
        .iter()
        .rposition(|(_, decoder)| !sizing.quick && fits(*decoder));
    let (name, decoder) = candidates[chosen.unwrap_or(0)];
    (llama(name, decoder), decoder)
}

fn unrelated(sizing: Sizing) -> Vec<Model> {
    if sizing.quick || sizing.model_bytes < 256 * MIB {
        let scale = if sizing.quick { 0.25 } else { 1.0 };
        return vec![
            bert("bert-nano", 64, 2, 256, 2000),
            narrow_classifier(),
            table4::sized("perceptron", (4e6 * scale) as u64),
        ];
    }
    vec![
        bert("minilm-l6", 384, 6, 1536, 30_522),
        cnn::resnet("resnet50", [3, 4, 6, 3]),
        vit("vit-small", 384, 12),
        table4::sized("perceptron", 120_000_000),
    ]
}

/// The four applications; their largest model, the sentence encoder, has half of the limit.
fn mixed(sizing: Sizing, place: (&Path, u64)) -> Result<Workload> {
    let largest = if sizing.quick {
        MIB
    } else {
        sizing.model_bytes / 2
    };
    let scale = (largest as f64 / table4::size_of("use") as f64).min(1.0);
    let mut models = Vec::new();
    let mut patterns = Vec::new();
    let mut names = Vec::new();
    for app in apps::apps(scale) {
        patterns.push((models.len()..models.len() + app.models.len()).collect());
        models.extend(app.models);
        names.push(app.name);
    }
    let about = format!(
        "the applications {} of the Tetris paper by turns, models {scale:.3} times their size",
        names.join(", ")
    );
    Workload::write(Kind::Mixed.name(), about, &models, patterns, place)
}
