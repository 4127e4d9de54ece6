//! The methods of loading a model's weights into a process.

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
    /// Every process reads the file into private memory
    Private,
    /// Every process maps the same file, so the page cache is shared
    PageCache,
    /// Every process maps its own copy of the file, like pods that download their own model
    OwnFile,
    /// Private copies that the kernel merges page by page (kernel samepage merging)
    Ksm,
    /// Tensor store, all processes open the same file
    Tetris,
    /// Tensor store, own copy of the file each, with a sidecar that identifies it
    TetrisSidecar,
    /// Tensor store, own copy of the file each, which each process hashes once
    TetrisOwnFile,
    /// Tensor store mounted read-only, own copy of the file each, which the daemon reads and
    /// publishes
    TetrisBrokered,
    /// Python processes, safetensors.torch, all map the same file (only on request)
    TorchSafetensors,
    /// Python processes, safetensors.torch, own copy of the file each (only on request)
    TorchSafetensorsOwnFile,
    /// Python processes, tetris.torch, all open the same file (only on request)
    Torch,
    /// Python processes, tetris.torch, own copy of the file each (only on request)
    TorchOwnFile,
    /// Python processes that each cast float32 weights to bfloat16, own copy of the file each (only
    /// on request)
    TorchCast,
    /// Python processes that share the cast weights as derived tensors, own copy of the file each
    /// (only on request)
    TorchDerived,
}

impl Method {
    /// Default methods, in the order of the tables. Methods with PyTorch need an interpreter with
    /// it and start slowly, so they run only on request.
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

    /// Its name on the command line and in every output.
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
            Self::TorchCast => "torch-cast",
            Self::TorchDerived => "torch-derived",
        }
    }

    /// Description in one line, for the report.
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
            Self::TorchCast => {
                "Python processes, safetensors.torch.load_file, own copy of the file each, float32 cast to bfloat16 by each"
            }
            Self::TorchDerived => {
                "Python processes, tetris.torch.load_file, own copy of the file each, float32 cast to bfloat16 once per node"
            }
        }
    }

    /// Returns the loader of its workers.
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
            Self::TorchCast => Loader::TorchCast,
            Self::TorchDerived => Loader::TorchDerived,
        }
    }

    /// Returns true if each process gets its own copy of the files.
    pub fn copies_files(self) -> bool {
        matches!(
            self,
            Self::OwnFile
                | Self::TetrisSidecar
                | Self::TetrisOwnFile
                | Self::TetrisBrokered
                | Self::TorchSafetensorsOwnFile
                | Self::TorchOwnFile
                | Self::TorchCast
                | Self::TorchDerived
        )
    }

    /// Returns true if it uses the tensor store.
    pub fn uses_store(self) -> bool {
        matches!(
            self.loader(),
            Loader::Tetris | Loader::Torch | Loader::TorchDerived
        )
    }

    /// Returns true if its processes are Python interpreters with PyTorch.
    pub fn needs_python(self) -> bool {
        self.loader().needs_python()
    }

    /// Returns true if its weights are cast, so that they differ from those of the file.
    pub fn casts(self) -> bool {
        matches!(self, Self::TorchCast | Self::TorchDerived)
    }

    /// Returns true if the memory for the weights does not grow with the instances.
    pub fn shares(self) -> bool {
        self.uses_store() || self.is_reclaimable() && !self.copies_files()
    }

    /// Returns true if every process holds the weights in private memory (at least at first).
    pub fn is_private(self) -> bool {
        matches!(self, Self::Private | Self::Ksm | Self::TorchCast)
    }

    /// Returns true if the kernel can drop the weights and read them again from the file.
    pub fn is_reclaimable(self) -> bool {
        matches!(self.loader(), Loader::FileMap | Loader::TorchSafetensors)
    }
}

/// Loading code of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loader {
    /// Reads into one heap allocation per tensor.
    Heap,
    /// Maps the file and reads it in place.
    FileMap,
    /// Reads into anonymous memory marked for merging.
    Mergeable,
    /// Loads through the tensor store.
    Tetris,
    /// A Python process: `safetensors.torch.load_file`.
    TorchSafetensors,
    /// A Python process: `tetris.torch.load_file`.
    Torch,
    /// A Python process: `safetensors.torch.load_file`, and a cast to bfloat16 in private memory.
    TorchCast,
    /// A Python process: `tetris.torch.load_file`, and a cast by `tetris.torch.derived`.
    TorchDerived,
}

impl Loader {
    /// Returns true if the worker is a Python interpreter.
    pub fn needs_python(self) -> bool {
        matches!(
            self,
            Self::TorchSafetensors | Self::Torch | Self::TorchCast | Self::TorchDerived
        )
    }
}

/// Use of the tensor store by a load. Zero and empty for the other loaders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreUse {
    /// Identity by which the store recognized each file, in load order, with repetitions.
    pub identities: Vec<String>,
    /// Number of bytes that the store already had.
    pub shared_bytes: u64,
    /// Number of bytes that this load published.
    pub published_bytes: u64,
    /// Number of bytes in private memory.
    pub private_bytes: u64,
}

/// A loaded instance: its tensors stay addressable until it is dropped.
pub trait Loaded {
    /// Calls `visit` for every tensor of every file.
    fn for_each(&self, visit: &mut dyn FnMut(&Tensor<'_>));

    /// Returns its use of the store.
    fn store_use(&self) -> StoreUse {
        StoreUse::default()
    }
}

/// Loads the files of one instance. Returns when every tensor is addressable.
///
/// # Errors
///
/// [`Error`] if a file or the store cannot be used, or the loader needs Python.
pub fn load(loader: Loader, files: &[PathBuf], store: Option<&Path>) -> Result<Box<dyn Loaded>> {
    Ok(match loader {
        Loader::Heap => Box::new(heap::Heap::load(files)?),
        Loader::FileMap => Box::new(file_map::FileMap::load(files)?),
        Loader::Mergeable => Box::new(mergeable::Mergeable::load(files)?),
        Loader::Tetris => tetris::load(files, store)?,
        Loader::TorchSafetensors | Loader::Torch | Loader::TorchCast | Loader::TorchDerived => {
            return Err(Error::Usage(
                "this loader needs a worker with PyTorch".into(),
            ));
        }
    })
}
