//! Removing a store that nobody needs any more: steps X1 to X4 of LAYOUT.md 5.6.

use std::io;
use std::path::Path;

use tetris_store_layout::{Holders, Reclaimed, Store, StoreError};

use super::Node;
use crate::config::StoreConfig;
use crate::kept;

/// What stands before the name of a directory that is being removed: no namespace begins with it.
const REMOVED: &str = ".removed-";

/// Whether a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Nothing of it is referenced, its objects are gone, and it is not looked after any more.
    Left,
    /// Somebody maps objects of it; it is looked after as before.
    InUse,
}

impl Node {
    /// Frees all objects of a store that no file configures, and leaves it. An object that is referenced keeps the store; those that are
    /// not may be gone then, as after any pass.
    pub fn leave(&mut self, config: &StoreConfig) -> Result<Leave, StoreError> {
        if self.dry_run {
            return Ok(Leave::InUse);
        }
        if let Some(pins) = &self.pins {
            pins.give_up(std::slice::from_ref(&config.name));
        }
        let open = self.tenants.iter();
        let open = open.map(|tenant| &tenant.store);
        let store = open.into_iter().find(|store| store.root() == config.path);
        let left = match store {
            Some(store) => free_all(store)?,
            // A directory that is no store, or only part of one, has nothing that anybody could map.
            None => Store::open(&config.path).map_or(Ok(true), |store| free_all(&store))?,
        };
        if !left {
            return Ok(Leave::InUse);
        }
        // X2
        let others = |other: &StoreConfig| other.path != config.path;
        self.tenants.retain(|tenant| others(&tenant.config));
        self.missing.retain(|(other, _)| others(other));
        self.added.retain(others);
        self.config.file.stores.retain(others);
        self.state.forget_store(&config.name);
        let kept = self.state_path(config);
        if let Err(error) = kept::forget(&kept) {
            tracing::warn!(store = config.name, path = %kept.display(), %error, "learned state of a store that is gone was left behind");
        }
        Ok(Leave::Left)
    }
}

/// Frees every object of a store that nobody references. Whether none is left.
fn free_all(store: &Store) -> Result<bool, StoreError> {
    let mut left = true;
    for entry in store.objects()?.objects {
        left &= store.reclaim(&entry.object)? != Reclaimed::Referenced;
    }
    let set_aside = store.quarantined()?.objects;
    // Nearly always there is nothing, and nobody's locks to read for it.
    if !set_aside.is_empty() {
        let holders = Holders::read()?;
        left &= set_aside.iter().all(|entry| holders.of(entry) == 0);
    }
    Ok(left)
}

/// Removes the directory of a store, which nobody finds by its name any more once this has begun. What an attempt before left
/// behind goes as well.
pub fn remove_directory(path: &Path) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let removed = path.with_file_name(format!("{REMOVED}{name}"));
    gone(std::fs::remove_dir_all(&removed))?;
    gone(std::fs::rename(path, &removed))?; // X3
    gone(std::fs::remove_dir_all(&removed))
}

/// Goes on with the removals in this directory that an earlier daemon began.
pub fn remove_leftovers(parent: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(REMOVED) {
            gone(std::fs::remove_dir_all(entry.path()))?;
        }
    }
    Ok(())
}

fn gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
