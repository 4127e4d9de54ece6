//! One file of a model, as far as it can be seen without reading it all.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetris_loader::{LoadError, LoadFailure, Recognized, Source, hub};
use tetris_store_layout::{FileSystemType, Manifest, ManifestKind, Store, cached_bytes};

use crate::doctor::mounts;
use tetris_agent::LoadOptions;
use tetris_agent::NotWorthSharing;
use tetris_agent::bound;
use tetris_agent::sidecar::{self, SidecarState};

const MOUNTS: &str = "/proc/self/mountinfo";

/// A tensor of a file, by its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedTensor {
    pub(super) name: String,
    /// Length in bytes.
    pub(super) len: u64,
}

/// A manifest that the store has, or a sidecar names, for a file.
#[derive(Debug)]
pub(super) struct KnownAs {
    pub(super) how: Recognized,
    pub(super) manifest: Manifest,
}

/// A file of a model.
#[derive(Debug)]
pub(super) struct LookedFile {
    pub(super) path: PathBuf,
    /// Length in bytes.
    pub(super) size: u64,
    pub(super) kind: ManifestKind,
    /// Tensors of a safetensors file; none of a file that is kept whole.
    pub(super) tensors: Vec<NamedTensor>,
    /// Type of the file system it lies on.
    pub(super) file_system: String,
    /// True if an identity by `stat` can be bound there.
    pub(super) is_bindable: bool,
    /// True if its name is that of a Hugging Face blob.
    pub(super) is_blob: bool,
    pub(super) sidecar: SidecarState,
    /// Its manifest, unless it is unknown or there is no store.
    pub(super) known: Option<KnownAs>,
    /// The reason that loads keep it out of the store.
    pub(super) not_worth: Option<NotWorthSharing>,
    /// Bytes of it in the page cache before it was looked at, if the kernel reports it.
    pub(super) cached: Option<u64>,
}

impl LookedFile {
    /// Looks at the file at `path`; with `is_model` it must be safetensors.
    pub(super) fn look(
        path: &Path,
        is_model: bool,
        store: Option<&Store>,
        min_shared_bytes: u64,
    ) -> Result<Self, LoadError> {
        let source = Source::open(path)?;
        // First: all that follows reads some of the file.
        let cached = cached_bytes(source.file()).ok().flatten();
        let named = path
            .extension()
            .is_some_and(|ending| ending == "safetensors");
        let (kind, tensors) = match source.header() {
            Ok((header, _)) => {
                let tensors = header.tensors.into_iter().map(|tensor| NamedTensor {
                    len: tensor.byte_len(),
                    name: tensor.name,
                });
                (ManifestKind::Safetensors, tensors.collect())
            }
            Err(LoadFailure::Load(LoadError::Header(_))) if !named && !is_model => {
                (ManifestKind::File, Vec::new())
            }
            Err(failure) => return Err(error_of(failure, path)),
        };
        let sidecar = match kind {
            ManifestKind::Safetensors => {
                sidecar::state(&source).map_err(|failure| error_of(failure, path))?
            }
            ManifestKind::File => SidecarState::Absent,
        };
        let options = LoadOptions::default().with_min_shared_bytes(min_shared_bytes);
        let is_shared_whatever = kind == ManifestKind::File;
        Ok(Self {
            path: path.to_owned(),
            size: source.identity().size,
            kind,
            tensors,
            file_system: file_system(&source),
            is_bindable: source.stat_key(kind).is_some(),
            is_blob: hub::blob_claim(path).is_some(),
            known: known_as(&source, kind, store, &sidecar),
            sidecar,
            not_worth: NotWorthSharing::of(&source, &options).filter(|_| !is_shared_whatever),
            cached,
        })
    }

    /// Returns true if a later load can recognize it without hashing it.
    pub(super) fn is_recognizable(&self) -> bool {
        self.is_bindable || self.is_blob || matches!(self.sidecar, SidecarState::Valid(_))
    }

    /// The facts of the file.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "path": self.path.to_string_lossy(),
            "bytes": self.size,
            "kind": match self.kind {
                ManifestKind::Safetensors => "safetensors",
                ManifestKind::File => "file",
            },
            "tensors": self.tensors.len(),
            "file_system": self.file_system,
            "stat_identity": self.is_bindable,
            "blob_name": self.is_blob,
            "sidecar": self.sidecar.name(),
            "known_by": self.known.as_ref().map(|known| known.how.name()),
            "manifest": self.known.as_ref().map(|known| known.manifest.id().to_string()),
            "unshared": self.not_worth.map(|why| why.to_string()),
            "cached_bytes": self.cached,
        })
    }
}

fn known_as(
    source: &Source,
    kind: ManifestKind,
    store: Option<&Store>,
    sidecar: &SidecarState,
) -> Option<KnownAs> {
    let by_identity = store.and_then(|store| {
        bound(source, kind, store).find_map(|(how, id)| {
            let manifest = store.manifest(id).ok()??;
            Some(KnownAs { how, manifest })
        })
    });
    let is_its = |known: &KnownAs| known.manifest.source_size == source.identity().size;
    by_identity.filter(is_its).or_else(|| match sidecar {
        SidecarState::Valid(manifest) => Some(KnownAs {
            how: Recognized::BySidecar,
            manifest: manifest.clone(),
        }),
        _ => None,
    })
}

/// By the table of mounts; a file system whose device stands in none of its lines by its number.
fn file_system(source: &Source) -> String {
    let table = std::fs::read(MOUNTS).unwrap_or_default();
    let device = source.file().metadata().map(|metadata| metadata.dev());
    let device = device.map(|dev| (nix::sys::stat::major(dev), nix::sys::stat::minor(dev)));
    let kind = device
        .ok()
        .and_then(|device| mounts::kind_of_device(&table, device));
    match (kind, FileSystemType::of(source.file())) {
        (Some(kind), _) => kind,
        (None, Ok(kind)) => format!("type {:#x}", kind.magic()),
        (None, Err(_)) => "of unknown type".to_owned(),
    }
}

fn error_of(failure: LoadFailure, path: &Path) -> LoadError {
    match failure {
        LoadFailure::Load(error) => error,
        LoadFailure::Changed => LoadError::Changed {
            path: path.to_owned(),
            attempts: 1,
        },
    }
}
