//! Removal of a store that is no longer needed: steps X1 and X2 of LAYOUT.md 5.6.

use tetris_store_layout::{Reclaimed, Store, StoreError};

use super::Reclaimer;
use super::persisted_state;
use crate::store::StoreConfig;

/// Result of [`Reclaimer::leave`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Nothing of it is referenced, its objects are gone, and it is not looked after any more.
    Left,
    /// Its objects are mapped; nothing else changes for it.
    InUse,
}

impl Reclaimer {
    /// Frees all objects of a store that no file configures, and leaves it. An object that is
    /// referenced keeps the store; those that are not may be gone then, as after any pass.
    pub fn leave(&mut self, config: &StoreConfig) -> Result<Leave, StoreError> {
        if self.dry_run {
            return Ok(Leave::InUse);
        }
        if let Some(references) = &self.references {
            references.release(std::slice::from_ref(&config.name));
        }
        let open = self.tenants.iter();
        let open = open.map(|tenant| &tenant.store);
        let store = open.into_iter().find(|store| store.root() == config.path);
        let left = match store {
            Some(store) => free_all(store)?,
            // A directory that is no store, or only part of one, has nothing that anybody could
            // map.
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
        if let Err(error) = persisted_state::forget(&kept) {
            tracing::warn!(store = config.name, path = %kept.display(), %error, "learned state of a store that is gone was left behind");
        }
        Ok(Leave::Left)
    }
}

/// Frees every unreferenced object of a store. Returns true if none is left.
fn free_all(store: &Store) -> Result<bool, StoreError> {
    let mut left = true;
    for entry in store.objects()?.objects {
        left &= store.reclaim(&entry.object)? != Reclaimed::Referenced;
    }
    for entry in store.quarantined()?.objects {
        left &= !store.is_quarantined_held(&entry.object)?;
    }
    Ok(left)
}
