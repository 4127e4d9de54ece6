//! Stores as the daemon's parts name them: configured, and open.

mod found;
mod removal;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tetris_store_layout::StoreId;

pub(crate) use found::FoundStores;
pub use removal::{remove_directory, remove_leftovers};

/// One configured store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Its name, which selects its policy.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Namespaces whose pods' declarations count for it; all when empty.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// True for the own store of the one namespace in `namespaces`, made when its first pod came.
    #[serde(skip)]
    pub own: bool,
}

impl StoreConfig {
    /// The namespace whose own store it is.
    pub fn namespace(&self) -> Option<&str> {
        let namespace = self.namespaces.first().filter(|_| self.own);
        namespace.map(String::as_str)
    }
}

/// An open store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenStore {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub root: PathBuf,
    /// The folder of its objects.
    pub objects: PathBuf,
    /// Its identity. A store that replaces this one has another.
    pub id: StoreId,
}
