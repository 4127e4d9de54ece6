//! Stores that come while the daemon runs: those of namespaces, and configured ones that another
//! process makes.

use tetris_store_layout::Store;

use super::Reclaimer;
use crate::store::StoreConfig;

/// Result of a look for stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looked {
    /// True if a store came.
    pub(super) came: bool,
    /// True if a directory of a namespace is no store yet: another process is making it.
    pub(super) incomplete: bool,
}

impl Reclaimer {
    /// Looks for stores that were not there before, and opens them.
    pub(super) fn look_for_stores(&mut self) -> Looked {
        let stores_now = self.config.file.stores_of_namespaces();
        let mut came = false;
        for store in stores_now.stores {
            came |= self.add_store(store);
        }
        let usable = |store: &StoreConfig| {
            let opened = Store::open(&store.path);
            opened.is_ok_and(|store| self.dry_run || store.is_writable())
        };
        if self.missing.iter().any(|(store, _)| usable(store)) {
            let open = self.tenants.len();
            self.open_missing();
            came |= self.tenants.len() != open;
        }
        Looked {
            came,
            incomplete: stores_now.incomplete,
        }
    }
}
