//! Stores of namespaces that are there, by the names of their directories.

use tetris_store_layout::{Store, StoreError};

use super::choose::OwnStore;
use super::config::PerNamespace;
use crate::store::{FoundStores, StoreConfig};

/// Finds stores in the directories of `rule`, beside the `known` stores. One without a unique
/// identifier can be someone else's, and counts only if it is a store.
pub(crate) fn find_stores(rule: &PerNamespace, known: &[StoreConfig]) -> FoundStores {
    let mut stores = FoundStores::default();
    let Ok(entries) = std::fs::read_dir(rule.parent()) else {
        return stores;
    };
    for entry in entries.flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let store = name
            .to_str()
            .filter(|_| is_directory)
            .and_then(|name| OwnStore::of_directory(rule, name));
        let Some(own) = store else { continue };
        let path = &own.config.path;
        if known.iter().any(|known| known.path.starts_with(path)) {
            continue;
        }
        match Store::open(path) {
            Err(StoreError::NotAStore { .. }) => stores.incomplete |= own.uid.is_some(),
            Err(error) if own.uid.is_none() && !error.is_leased() => {}
            _ => stores.stores.push(own.config),
        }
    }
    stores.stores.sort_by(|a, b| a.name.cmp(&b.name));
    stores
}
