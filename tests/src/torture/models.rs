//! 24 models of 1 KiB to 2 MiB, many of which share tensors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::{Spec, bytes, equal_specs, fingerprint_of_file, settle, write};

/// A model, and what must come out of loading it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KnownModel {
    /// Its file.
    pub path: PathBuf,
    /// True if it is kept as a whole.
    pub whole: bool,
    /// As [`crate::model::fingerprint`] gives it; of a whole file, BLAKE3.
    pub expected: String,
}

/// Length of the file kept as a whole.
const FILE_BYTES: usize = 700_001;

/// Six bases with two variants each, and five models of extreme shapes.
fn all_specs() -> Vec<(String, Vec<Spec>)> {
    let mut models = Vec::new();
    for family in 0..6 {
        for variant in 0..3 {
            let name = format!("family-{family}-{variant}");
            models.push((name, family_specs(family, variant)));
        }
    }
    // Smaller than a page; one pack; objects that use up files; one object of two thirds of a MiB and one of 2 MiB.
    models.push(("tiny".into(), equal_specs(91, 1, 1 << 10)));
    models.push(("pack".into(), equal_specs(92, 9, 5_000)));
    models.push(("wide".into(), equal_specs(93, 28, 64 << 10)));
    models.push(("wider".into(), equal_specs(94, 31, 66_000)));
    models.push(("large".into(), equal_specs(95, 1, 2 << 20)));
    models
}

/// A variant has one large and one small private tensor, and shares the others with its base, which is variant 0.
fn family_specs(family: u64, variant: u64) -> Vec<Spec> {
    let unit = 70_000 * (family as usize + 1);
    let lengths = [unit * 2, unit, 70_000, 70_004, 4_000, 2_000, 400];
    let is_own = |index| variant > 0 && (index == variant - 1 || index == 3 + variant);
    (0..)
        .zip(lengths)
        .map(|(index, len)| {
            let whose = if is_own(index) { variant } else { 0 };
            let seed = 5_000_000 + family * 1_000 + whose * 100 + index;
            (format!("t.{index}"), seed, len)
        })
        .collect()
}

/// Bytes of all models, those that they share counted once.
pub fn unique_bytes() -> u64 {
    let specs = all_specs().into_iter().flat_map(|(_, specs)| specs);
    let unique: BTreeMap<u64, usize> = specs.map(|(_, seed, len)| (seed, len)).collect();
    unique.into_values().map(|len| len as u64).sum::<u64>() + FILE_BYTES as u64
}

/// Writes all models into `dir`.
pub fn write_models(dir: &Path) -> anyhow::Result<Vec<KnownModel>> {
    let mut models = Vec::new();
    for (name, specs) in all_specs() {
        let path = dir.join(format!("{name}.safetensors"));
        write(&path, &specs)?;
        models.push(KnownModel {
            expected: fingerprint_of_file(&path)?,
            whole: false,
            path,
        });
    }
    let path = dir.join("file.bin");
    let content = bytes(96, FILE_BYTES);
    std::fs::write(&path, &content)?;
    settle(&path)?;
    models.push(KnownModel {
        expected: blake3::hash(&content).to_string(),
        whole: true,
        path,
    });
    Ok(models)
}
