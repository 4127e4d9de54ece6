//! Models that engines serve.

use std::collections::BTreeSet;

use crate::resources::ModelDescription;

/// A model, as far as its servers need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedModel {
    /// Service account of the pods that may mount it.
    pub account: String,
    /// Names of the nodes that have it.
    pub nodes: BTreeSet<String>,
    /// Description of its files; `None` before a node has it.
    pub description: Option<ModelDescription>,
}
