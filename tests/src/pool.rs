//! Objects that several processes publish, map and reclaim at once, and references to them whose
//! truth is checked while they are held.

use std::os::unix::fs::MetadataExt;

use anyhow::{Context, ensure};
use tetris_store_layout::{Access, Mapping, ObjectRef, Published, Store};

use crate::model::bytes;

/// Lengths of the pool's objects; one has two segments.
const LENGTHS: [usize; 6] = [1, 100, 4_096, 70_000, 300_000, (4 << 20) + 5];

/// Number of objects in the pool.
pub const POOL: u64 = LENGTHS.len() as u64;

/// Seed of an object that the test itself references all the time.
pub const PINNED: u64 = 77;

/// The bytes of object `index` of the pool.
pub fn pool_bytes(index: u64) -> Vec<u8> {
    let index = index % POOL;
    bytes(1_000_000 + index, LENGTHS[index as usize])
}

/// A mapped object.
#[derive(Debug)]
pub struct Held {
    /// The object.
    pub object: ObjectRef,
    mapping: Mapping,
}

impl From<Published> for Held {
    fn from(published: Published) -> Self {
        Self {
            object: published.object,
            mapping: published.mapping,
        }
    }
}

impl Held {
    /// Maps `object`, if it is there.
    pub fn map(store: &Store, object: ObjectRef, access: Access) -> anyhow::Result<Option<Self>> {
        let mapping = store.map(&object, access)?;
        Ok(mapping.map(|mapping| Self { object, mapping }))
    }

    /// Checks that the bytes are those of the id (INV-1), and that the object has its name while it
    /// is mapped (INV-3).
    pub fn check(&self, store: &Store) -> anyhow::Result<()> {
        ensure!(
            ObjectRef::of(&self.mapping) == self.object,
            "INV-1: wrong bytes under the name {}",
            self.object.file_name()
        );
        require_named(store, &self.object, &self.mapping)
    }
}

/// Checks that the name of `object` leads to the very inode that `bytes` are mapped from (INV-3).
pub fn require_named(store: &Store, object: &ObjectRef, bytes: &[u8]) -> anyhow::Result<()> {
    // Of an object without bytes nothing is mapped.
    let Some(first) = bytes.first() else {
        return Ok(());
    };
    let path = store.object_path(object);
    let named = std::fs::symlink_metadata(&path)
        .with_context(|| format!("INV-3: {} is mapped and has no name", path.display()))?;
    let mapped = mapped_inode(std::ptr::from_ref(first).addr())?;
    ensure!(
        named.ino() == mapped,
        "INV-3: {} is inode {}, mapped is inode {mapped}",
        path.display(),
        named.ino()
    );
    Ok(())
}

/// Inode of the file mapped at `address`, by /proc/self/maps.
fn mapped_inode(address: usize) -> anyhow::Result<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let range = fields.next().and_then(|range| range.split_once('-'));
        let Some((from, to)) = range else { continue };
        let (from, to) = (
            usize::from_str_radix(from, 16)?,
            usize::from_str_radix(to, 16)?,
        );
        if (from..to).contains(&address) {
            let inode = fields.nth(3).context("a line without inode")?;
            return Ok(inode.parse()?);
        }
    }
    anyhow::bail!("nothing is mapped at {address:#x}")
}
