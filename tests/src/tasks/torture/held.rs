//! Mappings of a process, and the check that their bytes have not changed.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, ensure};
use tetris_agent::{Derived, LoadReport, Model, Origin, SharedFile};
use tetris_store_layout::{ObjectRef, Store};

use crate::model::fingerprint;
use crate::torture::KnownModel;

/// A model, file or derived tensor, and what its bytes must be.
#[derive(Debug)]
pub(super) struct Held {
    memory: Memory,
    expected: String,
}

#[derive(Debug)]
enum Memory {
    Model(Model),
    File(SharedFile),
    Derived(Derived),
}

/// Names of the tensors that processes derive.
pub(super) fn transformed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte ^ 0xa5).collect()
}

/// Number of references to each object, by its file's name.
pub(super) fn count(held: &[Held]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for object in held.iter().flat_map(Held::objects) {
        *counts.entry(object.file_name()).or_default() += 1;
    }
    counts
}

/// Checks that the names of all objects that are held lead to the very inodes that this process has mapped from the
/// store, and to no others (INV-3).
pub(super) fn require_named(store: &Store, held: &[Held]) -> anyhow::Result<()> {
    let mut named = BTreeSet::new();
    for object in held.iter().flat_map(Held::objects) {
        let path = store.object_path(&object);
        let stat = std::fs::symlink_metadata(&path)
            .with_context(|| format!("INV-3: {} is mapped and has no name", path.display()))?;
        named.insert(stat.ino());
    }
    let mapped = mapped_inodes(store)?;
    ensure!(
        mapped == named,
        "INV-3: inodes {mapped:?} are mapped, those of the names are {named:?}"
    );
    Ok(())
}

/// The inodes of the store's file system that this process has mapped.
fn mapped_inodes(store: &Store) -> anyhow::Result<BTreeSet<u64>> {
    let (major, minor) = store.device();
    let device = format!("{major:02x}:{minor:02x}");
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut inodes = BTreeSet::new();
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace().skip(3);
        if fields.next() == Some(&device) {
            let inode = fields.next().context("a line without inode")?;
            inodes.insert(inode.parse()?);
        }
    }
    Ok(inodes)
}

impl Held {
    pub(super) fn model(model: Model, known: &KnownModel) -> Self {
        Self {
            memory: Memory::Model(model),
            expected: known.expected.clone(),
        }
    }

    pub(super) fn file(file: SharedFile, known: &KnownModel) -> Self {
        Self {
            memory: Memory::File(file),
            expected: known.expected.clone(),
        }
    }

    pub(super) fn derived(derived: Derived, expected: &[u8]) -> Self {
        Self {
            memory: Memory::Derived(derived),
            expected: blake3::hash(expected).to_string(),
        }
    }

    pub(super) fn report(&self) -> Option<&LoadReport> {
        match &self.memory {
            Memory::Model(model) => Some(model.report()),
            Memory::File(file) => Some(file.report()),
            Memory::Derived(_) => None,
        }
    }

    pub(super) fn as_model(&self) -> Option<&Model> {
        match &self.memory {
            Memory::Model(model) => Some(model),
            Memory::File(_) | Memory::Derived(_) => None,
        }
    }

    /// The objects of the store that are held.
    fn objects(&self) -> Vec<ObjectRef> {
        match &self.memory {
            Memory::Model(model) => model.objects().collect(),
            Memory::File(file) => file.bytes().map(ObjectRef::of).into_iter().collect(),
            Memory::Derived(derived) if derived.origin() == Origin::Private => Vec::new(),
            Memory::Derived(derived) => vec![ObjectRef::of(derived)],
        }
    }

    /// Reads every byte. Returns how many there are.
    pub(super) fn check(&self) -> anyhow::Result<u64> {
        let (found, read) = match &self.memory {
            Memory::Model(model) => {
                let read = model.tensors().map(|tensor| tensor.bytes().len()).sum();
                (fingerprint(model)?, read)
            }
            Memory::File(file) => {
                // As a program does that maps it by path.
                let content = std::fs::read(file.path())
                    .with_context(|| format!("INV-3: {}", file.path().display()))?;
                if let Some(mapped) = file.bytes() {
                    ensure!(mapped == content, "INV-2: the mapping is not the file");
                }
                (blake3::hash(&content).to_string(), content.len())
            }
            Memory::Derived(derived) => (blake3::hash(derived).to_string(), derived.len()),
        };
        ensure!(
            found == self.expected,
            "wrong bytes: {found}, expected {}",
            self.expected
        );
        Ok(read as u64)
    }
}
