//! Memory that sharing saves against the page cache.

use std::collections::{HashMap, HashSet};

use tetris_agent::Store;
use tetris_store_layout::{Manifest, ObjectRef};

use super::error::Result;

/// Bytes that mappings of the model files through the page cache would take more than the store takes.
///
/// The page cache holds each file once. A model counts, with one file, if all of its objects are in
/// `held`; processes that map further copies of its file would take more.
pub(crate) fn against_page_cache(store: &Store, held: &HashSet<ObjectRef>) -> Result<u64> {
    let mut manifests = Vec::new();
    for record in store.manifests()? {
        // One that is damaged or gone belongs to no model in use.
        manifests.extend(store.manifest(record.id).ok().flatten());
    }
    Ok(saved(&manifests, held))
}

fn saved(manifests: &[Manifest], held: &HashSet<ObjectRef>) -> u64 {
    let mut files = 0;
    let mut shared: HashMap<ObjectRef, u64> = HashMap::new();
    for manifest in manifests {
        let objects = manifest.objects.iter().map(|entry| entry.object);
        if manifest.objects.is_empty() || !objects.clone().all(|object| held.contains(&object)) {
            continue;
        }
        let of_file: HashSet<ObjectRef> = objects.collect();
        files += of_file.iter().map(|object| object.len).sum::<u64>();
        shared.extend(of_file.into_iter().map(|object| (object, object.len)));
    }
    files - shared.values().sum::<u64>()
}
