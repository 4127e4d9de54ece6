//! Tables of a node of a cluster in a build without the feature `node`: there are none.

use std::path::Path;

use clap::Args;

use super::ConfigFile;
use crate::field_error::FieldError;
use crate::store::FoundStores;

/// No flags.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeFlags {}

/// No tables.
#[derive(Debug, Clone, Default)]
pub struct NodeTables {}

#[expect(clippy::unused_self, reason = "the other tables have fields")]
impl NodeFlags {
    /// Changes nothing.
    pub(super) fn apply(&self, _: &mut ConfigFile) {}
}

#[expect(clippy::unused_self, reason = "the other tables have fields")]
impl ConfigFile {
    /// Checks nothing.
    pub(super) fn check_tables(&self, _: &mut Vec<FieldError>) -> NodeTables {
        NodeTables {}
    }

    /// Returns false: there are no namespaces.
    pub(super) fn makes_stores(&self) -> bool {
        false
    }

    /// Returns 0: no namespace has its own store.
    pub(crate) fn arrivals(&self, _: (u64, u64), _: usize) -> u32 {
        0
    }

    /// None: there are no namespaces.
    pub(crate) fn stores_of_namespaces(&self) -> FoundStores {
        FoundStores::default()
    }

    /// None: there are no namespaces.
    pub(crate) fn parent_of_namespaces(&self) -> Option<&Path> {
        None
    }

    /// Returns false: there are no volumes.
    pub(crate) fn gives_volumes(&self) -> bool {
        false
    }
}
