//! Another daemon that looks after one of the stores: two would free and publish past each other's
//! limits, so this one does not start.

use std::path::PathBuf;

use tetris_store_layout::Store;
use tetris_wire::{Listening, listening};
use thiserror::Error;

use crate::store::StoreConfig;

/// Another daemon looks after a store.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "store `{store}` at `{}`: another daemon{} looks after it; stop that one first, or configure another store",
    path.display(),
    pid.map(|pid| format!(", process {pid},")).unwrap_or_default()
)]
pub struct OtherDaemon {
    /// The store's name in this configuration.
    pub store: String,
    /// Its directory.
    pub path: PathBuf,
    /// The other daemon's process, where this one can see it.
    pub pid: Option<u32>,
}

/// Looks for daemons at these stores, before anything of them is changed.
///
/// # Errors
/// [`OtherDaemon`] for the first store that has one.
pub(super) fn refuse_others(stores: &[StoreConfig]) -> Result<(), OtherDaemon> {
    for store in stores {
        // The passes report a store that cannot be opened.
        let Ok(open) = Store::open(&store.path) else {
            continue;
        };
        if let Ok(Some(Listening { pid })) = listening(&open.daemon_socket()) {
            let (store, path) = (store.name.clone(), store.path.clone());
            return Err(OtherDaemon { store, path, pid });
        }
    }
    Ok(())
}
