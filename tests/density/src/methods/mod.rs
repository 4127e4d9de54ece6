//! The ways to get a model's weights into a process.

mod file_map;
mod heap;
mod mergeable;
pub mod tetris;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::compute::Tensor;
use crate::error::{Error, Result};

/// A loading method of the comparison.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Every process reads the file into memory of its own
    Private,
    /// Every process maps the same file, so the page cache is shared
    PageCache,
    /// Every process maps its own copy of the file, as pods that download their own model do
    OwnFile,
    /// Private copies that the kernel merges page by page (kernel samepage merging)
    Ksm,
    /// Tensor store, all processes open the same file
    Tetris,
    /// Tensor store, own copy of the file each, with a sidecar that identifies it
    TetrisSidecar,
    /// Tensor store, own copy of the file each, which must be hashed once
    TetrisOwnFile,
    /// Tensor store mounted read-only, own copy of the file each, which the daemon reads and publishes
    TetrisBrokered,
    /// Python processes, safetensors.torch, all map the same file (only when asked for)
    TorchSafetensors,
    /// Python processes, safetensors.torch, own copy of the file each (only when asked for)
    TorchSafetensorsOwnFile,
    /// Python processes, tetris.torch, all open the same file (only when asked for)
    Torch,
    /// Python processes, tetris.torch, own copy of the file each (only when asked for)
    TorchOwnFile,
}

impl Method {
    /// The methods that run unless others are asked for, in the order of the tables. Those with PyTorch need an
    /// interpreter that has it, and take long to start.
    pub const DEFAULT: [Self; 8] = [
        Self::Private,
        Self::PageCache,
        Self::OwnFile,
        Self::Ksm,
        Self::Tetris,
        Self::TetrisSidecar,
        Self::TetrisOwnFile,
        Self::TetrisBrokered,
    ];

    /// Name on the command line and in every output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::PageCache => "page-cache",
            Self::OwnFile => "own-file",
            Self::Ksm => "ksm",
            Self::Tetris => "tetris",
            Self::TetrisSidecar => "tetris-sidecar",
            Self::TetrisOwnFile => "tetris-own-file",
            Self::TetrisBrokered => "tetris-brokered",
            Self::TorchSafetensors => "torch-safetensors",
            Self::TorchSafetensorsOwnFile => "torch-safetensors-own-file",
            Self::Torch => "torch",
            Self::TorchOwnFile => "torch-own-file",
        }
    }

    /// What it does, in one line for the report.
    pub fn description(self) -> &'static str {
        match self {
            Self::Private => "read into heap memory, one copy per process",
            Self::PageCache => "mmap of one file that all processes share",
            Self::OwnFile => "mmap, each process its own copy of the file (own download)",
            Self::Ksm => "private copies marked mergeable, merged by the kernel afterwards",
            Self::Tetris => "tensor store, all processes open one file: known after the first",
            Self::TetrisSidecar => "tensor store, own copy of the file each, known by its sidecar",
            Self::TetrisOwnFile => "tensor store, own copy of the file each, hashed once by each",
            Self::TetrisBrokered => {
                "tensor store mounted read-only, own copy of the file each, read and published by the daemon"
            }
            Self::TorchSafetensors => "Python processes, safetensors.torch.load_file of one file",
            Self::TorchSafetensorsOwnFile => {
                "Python processes, safetensors.torch.load_file, own copy of the file each"
            }
            Self::Torch => "Python processes, tetris.torch.load_file of one file",
            Self::TorchOwnFile => {
                "Python processes, tetris.torch.load_file, own copy of the file each, hashed once by each"
            }
        }
    }

    /// How the worker loads.
    pub fn loader(self) -> Loader {
        match self {
            Self::Private => Loader::Heap,
            Self::PageCache | Self::OwnFile => Loader::FileMap,
            Self::Ksm => Loader::Mergeable,
            Self::Tetris | Self::TetrisSidecar | Self::TetrisOwnFile | Self::TetrisBrokered => {
                Loader::Tetris
            }
            Self::TorchSafetensors | Self::TorchSafetensorsOwnFile => Loader::TorchSafetensors,
            Self::Torch | Self::TorchOwnFile => Loader::Torch,
        }
    }

    /// Whether each process gets a copy of the files of its own.
    pub fn copies_files(self) -> bool {
        matches!(
            self,
            Self::OwnFile
                | Self::TetrisSidecar
                | Self::TetrisOwnFile
                | Self::TetrisBrokered
                | Self::TorchSafetensorsOwnFile
                | Self::TorchOwnFile
        )
    }

    /// Whether it uses the tensor store.
    pub fn uses_store(self) -> bool {
        matches!(self.loader(), Loader::Tetris | Loader::Torch)
    }

    /// Whether its processes are Python interpreters with PyTorch.
    pub fn needs_python(self) -> bool {
        self.loader().needs_python()
    }

    /// Whether the memory for the weights does not grow with the instances.
    pub fn shares(self) -> bool {
        self.uses_store() || self.is_reclaimable() && !self.copies_files()
    }

    /// Whether every process holds the weights in memory that nobody shares (at least at first).
    pub fn is_private(self) -> bool {
        matches!(self, Self::Private | Self::Ksm)
    }

    /// Whether the kernel can drop the weights and read them again from the file.
    pub fn is_reclaimable(self) -> bool {
        matches!(self.loader(), Loader::FileMap | Loader::TorchSafetensors)
    }
}

/// What a worker does with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// Read into one heap allocation per tensor.
    Heap,
    /// Map the file and read it in place.
    FileMap,
    /// Read into anonymous memory marked for merging.
    Mergeable,
    /// Load through the tensor store.
    Tetris,
    /// A Python process: `safetensors.torch.load_file`.
    TorchSafetensors,
    /// A Python process: `tetris.torch.load_file`.
    Torch,
}

impl Loader {
    /// Whether a Python interpreter does it instead of this program.
    pub fn needs_python(self) -> bool {
        matches!(self, Self::TorchSafetensors | Self::Torch)
    }
}

/// How the tensor store served a load. Zero and empty for the other loaders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreUse {
    /// By which identity each file was recognised, in load order; repeated values are kept.
    pub identities: Vec<String>,
    /// Bytes that the store already had.
    pub shared_bytes: u64,
    /// Bytes that this load added to the store.
    pub published_bytes: u64,
    /// Bytes that ended up in private memory instead.
    pub private_bytes: u64,
}

/// A loaded instance: its tensors stay addressable until it is dropped.
pub trait Loaded {
    /// Calls `visit` for every tensor of every file.
    fn for_each(&self, visit: &mut dyn FnMut(&Tensor<'_>));

    /// How the store served it.
    fn store_use(&self) -> StoreUse {
        StoreUse::default()
    }
}

/// Loads the files of one instance; returns when every tensor is addressable.
pub fn load(loader: Loader, files: &[PathBuf], store: Option<&Path>) -> Result<Box<dyn Loaded>> {
    Ok(match loader {
        Loader::Heap => Box::new(heap::Heap::load(files)?),
        Loader::FileMap => Box::new(file_map::FileMap::load(files)?),
        Loader::Mergeable => Box::new(mergeable::Mergeable::load(files)?),
        Loader::Tetris => tetris::load(files, store)?,
        Loader::TorchSafetensors | Loader::Torch => {
            return Err(Error::Usage(
                "this loader needs a worker with PyTorch".into(),
            ));
        }
    })
}
