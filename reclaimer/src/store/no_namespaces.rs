//! Stores of namespaces in a build without the feature `node`: there are none.

use super::StoreConfig;

/// No stores.
#[derive(Debug, Default)]
pub(crate) struct FoundStores {
    /// None.
    pub(crate) stores: Vec<StoreConfig>,
    /// False.
    pub(crate) incomplete: bool,
}
