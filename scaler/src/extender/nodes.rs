//! Nodes of a request, by name or in full.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tetris_scaler_core::NodeView;
use thiserror::Error;

use super::wire::{ExtenderArgs, NamedNode, NodeList};
use crate::state::Snapshot;

/// Maximum number of nodes in a request.
pub const MAX_NODES: usize = tetris_scaler_core::MAX_NODES;

/// Nodes of a request, in its form. The answer has the same form.
#[derive(Debug)]
pub enum Form {
    /// `nodeCacheCapable: true`.
    Names(Vec<String>),
    /// `nodeCacheCapable: false`: nodes with their names, as sent.
    Full {
        /// Metadata of the list.
        metadata: Option<Box<RawValue>>,
        /// Nodes with their names.
        nodes: Vec<(String, Box<RawValue>)>,
    },
}

/// The reason the nodes of a request cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodesError {
    /// Neither nodes nor names.
    #[error("the request has neither `Nodes` nor `NodeNames`, expected one of them")]
    Missing,
    /// Too many nodes.
    #[error("the request has {found} nodes, expected at most {MAX_NODES}")]
    TooMany {
        /// Number of nodes.
        found: usize,
    },
    /// A node without a name.
    #[error("Nodes.items[{index}]: {source}")]
    Node {
        /// Index of the node in the list.
        index: usize,
        /// Cause.
        source: serde_json::Error,
    },
}

impl Form {
    /// Takes the nodes out of `args`.
    ///
    /// # Errors
    ///
    /// Fails if there are no nodes, more than [`MAX_NODES`], or a node without a name.
    pub fn of(args: &mut ExtenderArgs) -> Result<Self, NodesError> {
        let form = match (args.node_names.take(), args.nodes.take()) {
            (Some(names), _) => Self::Names(names),
            (None, Some(list)) => Self::full(list)?,
            (None, None) => return Err(NodesError::Missing),
        };
        let found = form.len();
        if found > MAX_NODES {
            return Err(NodesError::TooMany { found });
        }
        Ok(form)
    }

    fn full(list: NodeList) -> Result<Self, NodesError> {
        let named = |(index, node): (usize, Box<RawValue>)| {
            let named = serde_json::from_str::<NamedNode>(node.get());
            let named = named.map_err(|source| NodesError::Node { index, source })?;
            Ok((named.metadata.name, node))
        };
        let items = list.items.unwrap_or_default().into_iter().enumerate();
        Ok(Self::Full {
            metadata: list.metadata,
            nodes: items.map(named).collect::<Result<_, NodesError>>()?,
        })
    }

    fn len(&self) -> usize {
        match self {
            Self::Names(names) => names.len(),
            Self::Full { nodes, .. } => nodes.len(),
        }
    }

    /// Names of the nodes, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (names, nodes) = match self {
            Self::Names(names) => (names.as_slice(), [].as_slice()),
            Self::Full { nodes, .. } => ([].as_slice(), nodes.as_slice()),
        };
        let in_full = nodes.iter().map(|(name, _)| name.as_str());
        names.iter().map(String::as_str).chain(in_full)
    }
}

/// Returns the snapshot's nodes by name.
pub(super) fn by_name(snapshot: &Snapshot) -> HashMap<&str, &NodeView> {
    let nodes = snapshot.nodes.iter();
    nodes.map(|node| (node.name.as_str(), node)).collect()
}
