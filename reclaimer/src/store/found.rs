//! Stores of namespaces that are there.

use super::StoreConfig;

/// Stores of found namespaces.
#[derive(Debug, Default)]
pub(crate) struct FoundStores {
    /// Those that are not known yet, by name.
    pub(crate) stores: Vec<StoreConfig>,
    /// True if a directory of a namespace is no store yet: another process is making it.
    pub(crate) incomplete: bool,
}
