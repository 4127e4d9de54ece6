//! Registry of bytes by address, so that a tensor of another library, which is only an address, is
//! recognized as what it was loaded as.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use tetris_store_layout::{ObjectRef, TensorId};

use crate::pagemap;

/// By address and length.
type Entries = BTreeMap<(usize, usize), Entry>;

struct Entry {
    id: TensorId,
    /// The object that these bytes are the whole of.
    object: Option<ObjectRef>,
    /// Tensors of equal bytes in one pack are at one address.
    count: usize,
}

static ENTRIES: Mutex<Entries> = Mutex::new(BTreeMap::new());

fn entries() -> MutexGuard<'static, Entries> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes what was loaded into these bytes.
pub(crate) fn enter(address: NonZeroUsize, len: usize, id: TensorId, object: Option<&ObjectRef>) {
    let mut entries = entries();
    let entry = entries.entry((address.get(), len)).or_insert(Entry {
        id,
        object: None,
        count: 0,
    });
    entry.id = id;
    entry.object = object.filter(|object| object.len == len as u64).copied();
    entry.count += 1;
}

/// Takes back one [`enter`]. The memory is still there.
pub(crate) fn leave(address: NonZeroUsize, len: usize) {
    let mut entries = entries();
    let key = (address.get(), len);
    if let Some(entry) = entries.get_mut(&key) {
        entry.count -= 1;
        if entry.count == 0 {
            entries.remove(&key);
        }
    }
}

/// The id of the `nbytes` bytes at `address`, if they are mapped from the store and this process has not
/// written to them.
///
/// A page that was written is the process's own, and the kernel reports it (proc_pid_pagemap(5)). `None`, too,
/// where the kernel does not tell.
#[pyfunction]
pub(crate) fn unmodified_id(address: usize, nbytes: usize) -> Option<String> {
    let id = entries().get(&(address, nbytes))?.id;
    pagemap::is_unmodified(address, nbytes).then(|| id.to_string())
}

/// Returns true if any tensor mapped from the store is alive in this process.
#[pyfunction]
pub(crate) fn has_mapped() -> bool {
    !entries().is_empty()
}

/// The file name of the object that the `nbytes` bytes at `address` are the whole of, if this process has not
/// written to them.
#[pyfunction]
pub(crate) fn unmodified_object(address: usize, nbytes: usize) -> Option<String> {
    let object = entries().get(&(address, nbytes))?.object?;
    pagemap::is_unmodified(address, nbytes).then(|| object.file_name())
}

/// Returns true if the `nbytes` bytes at `address` are mapped from the store, as a tensor or a part of one, and this
/// process has not written to them.
#[pyfunction]
pub(crate) fn is_unmodified(address: usize, nbytes: usize) -> bool {
    let Some(end) = address.checked_add(nbytes) else {
        return false;
    };
    // Memory of several lengths can begin at one address, the longest comes last; none begins within another.
    let known = entries()
        .range(..=(address, usize::MAX))
        .next_back()
        .is_some_and(|(&(start, len), _)| end - start <= len);
    known && pagemap::is_unmodified(address, nbytes)
}
