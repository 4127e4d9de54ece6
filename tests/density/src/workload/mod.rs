//! Workloads: the models that the instances of a group load.

pub mod copies;
mod families;
mod given;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use families::Sizing;
pub use given::names;

use crate::error::{Error, Result};
use crate::synthetic::{self, Model};
use crate::system::disk;
use crate::{index, units};

/// A kind of group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Every instance loads the same model
    Replicas,
    /// A family of image classifiers that differ in the retrained last layer
    Heads,
    /// One base model, and a low-rank adapter for each instance
    Lora,
    /// Models without common tensors
    Unrelated,
    /// Several applications of one to three models each, as in the Tetris paper
    Mixed,
    /// The user's base model and its variants (--base, --variants)
    #[value(skip)]
    Family,
}

impl Kind {
    /// Kinds with synthetic models, in the order of measurement.
    pub const SYNTHETIC: [Self; 5] = [
        Self::Replicas,
        Self::Heads,
        Self::Lora,
        Self::Unrelated,
        Self::Mixed,
    ];

    /// Its name on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Replicas => "replicas",
            Self::Heads => "heads",
            Self::Lora => "lora",
            Self::Unrelated => "unrelated",
            Self::Mixed => "mixed",
            Self::Family => "family",
        }
    }
}

/// A group to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its kind.
    pub kind: Kind,
    /// Its name in every output.
    pub name: String,
    /// The user's models in it; empty with synthetic ones.
    pub models: Vec<PathBuf>,
}

impl Group {
    /// Creates a group that has its kind's name.
    pub fn new(kind: Kind, models: &[PathBuf]) -> Self {
        Self {
            kind,
            name: kind.name().to_owned(),
            models: models.to_vec(),
        }
    }
}

/// A model file on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelFile {
    /// Its name in tables.
    pub name: String,
    /// Its path.
    #[serde(skip)]
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Number of tensors.
    pub tensors: usize,
    /// Length of all tensors, in bytes.
    pub tensor_bytes: u64,
}

/// A group of instances: the files, and those of each instance.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its name in every output.
    pub name: String,
    /// Description in one sentence, for the report.
    pub description: String,
    /// The files.
    pub files: Vec<ModelFile>,
    /// Indexes of the files that an instance loads, in order; instance `i` uses pattern `i` modulo
    /// the number of patterns.
    pub patterns: Vec<Vec<usize>>,
    /// Length of the distinct tensors in bytes, if known.
    pub distinct_bytes: Option<u64>,
    /// The common part of each variant with the base; empty without a base.
    pub sharing: Vec<SharedPart>,
}

/// The part of a variant that its base has as well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedPart {
    /// Name of the variant.
    pub variant: String,
    /// Length of its distinct tensors, in bytes.
    pub tensor_bytes: u64,
    /// Length of those whose bytes are in the base too, in bytes.
    pub shared_bytes: u64,
    /// Number of those.
    pub shared_tensors: u64,
}

impl Workload {
    /// Generates synthetic models in a directory; `patterns` are indexes into `models`.
    fn write(
        name: &str,
        description: String,
        models: &[Model],
        patterns: Vec<Vec<usize>>,
        (directory, seed): (&Path, u64),
    ) -> Result<Self> {
        std::fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        disk::require(directory, models.iter().map(Model::bytes).sum())?;
        let mut files = Vec::new();
        for model in models {
            let path = directory.join(format!("{}.safetensors", model.name));
            synthetic::write(model, seed, &path)?;
            files.push(ModelFile::examine(&model.name, &path)?);
        }
        let distinct_bytes = Some(synthetic::distinct_bytes(models));
        Ok(Self {
            name: name.to_owned(),
            description,
            files,
            patterns,
            distinct_bytes,
            sharing: Vec::new(),
        })
    }

    /// The files of one instance.
    pub fn files_of(&self, instance: usize) -> impl Iterator<Item = &ModelFile> {
        self.patterns[instance % self.patterns.len()]
            .iter()
            .map(|&file| &self.files[file])
    }

    /// Length of the files of one instance, in bytes.
    pub fn file_bytes_of(&self, instance: usize) -> u64 {
        self.files_of(instance).map(|file| file.file_bytes).sum()
    }

    /// Length of the files of the first `instances` instances in bytes, summed over the instances.
    pub fn file_bytes(&self, instances: usize) -> u64 {
        (0..instances)
            .map(|instance| self.file_bytes_of(instance))
            .sum()
    }

    /// Length of the tensors of the first `instances` instances in bytes, summed over the
    /// instances.
    pub fn logical_bytes(&self, instances: usize) -> u64 {
        (0..instances)
            .flat_map(|instance| self.files_of(instance))
            .map(|file| file.tensor_bytes)
            .sum()
    }

    /// Length of all files in bytes, each counted once.
    pub fn stored_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file_bytes).sum()
    }

    /// Returns true if an earlier instance of a group loads the same files.
    pub fn is_repeat(&self, instance: usize) -> bool {
        instance >= self.patterns.len()
    }

    /// Formats the models in one line.
    pub fn models_line(&self) -> String {
        let models = self.files.iter().map(|file| {
            format!(
                "{} ({}, {} tensors)",
                file.name,
                units::bytes(file.tensor_bytes),
                file.tensors
            )
        });
        models.collect::<Vec<_>>().join(", ")
    }
}

impl ModelFile {
    /// Reads the header of a file, and brings the file into the page cache at its best.
    fn examine(name: &str, path: &Path) -> Result<Self> {
        let (tensors, tensor_bytes) = index::totals(path)?;
        let file_bytes = path.metadata().map_err(Error::io("examine", path))?.len();
        disk::refresh_cache(path)?;
        Ok(Self {
            name: name.to_owned(),
            path: path.to_path_buf(),
            file_bytes,
            tensors,
            tensor_bytes,
        })
    }
}

/// Source of the models of a run.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// The user's models.
    Given,
    /// Synthetic families.
    Families(Sizing),
    /// Models with the sizes of Table 4, multiplied by this factor.
    Table4(f64),
}

impl Source {
    /// Returns true for the workload for which this project's bars and the paper's figures are
    /// meant: the synthetic families in their full size.
    pub fn is_own(self) -> bool {
        match self {
            Self::Given | Self::Table4(_) => false,
            Self::Families(sizing) => !sizing.quick,
        }
    }
}

/// Prepares one group; synthetic files are created in `directory`.
pub fn build(source: Source, group: &Group, directory: &Path, seed: u64) -> Result<Workload> {
    match source {
        Source::Given => given::build(group),
        Source::Families(sizing) => families::build(group.kind, sizing, directory, seed),
        Source::Table4(scale) => families::build_table4(scale, directory, seed),
    }
}
