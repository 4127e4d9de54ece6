//! Nodes by name or in full, as the scheduler sends them.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tetris_scaler_core::NodeView;
use thiserror::Error;

use super::wire::{ExtenderArgs, NamedNode, NodeList};
use crate::state::Snapshot;

/// The most nodes of a request.
pub const MAX_NODES: usize = tetris_scaler_core::MAX_NODES;

/// The nodes of a request, in the form in which they came, which is that of the answer.
#[derive(Debug)]
pub enum Form {
    /// `nodeCacheCapable: true`.
    Names(Vec<String>),
    /// `nodeCacheCapable: false`: names, and nodes as they were sent.
    Full {
        /// Of the list.
        metadata: Option<Box<RawValue>>,
        /// By name.
        nodes: Vec<(String, Box<RawValue>)>,
    },
}

/// The nodes of a request cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NodesError {
    /// None are given.
    #[error("the request has neither `Nodes` nor `NodeNames`, expected one of them")]
    Missing,
    /// Too many are given.
    #[error("the request has {found} nodes, expected at most {MAX_NODES}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// One has no name.
    #[error("Nodes.items[{index}]: {source}")]
    Node {
        /// Its place in the list.
        index: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl Form {
    /// The nodes of `args`, which loses them.
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

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (names, nodes) = match self {
            Self::Names(names) => (names.as_slice(), [].as_slice()),
            Self::Full { nodes, .. } => ([].as_slice(), nodes.as_slice()),
        };
        let in_full = nodes.iter().map(|(name, _)| name.as_str());
        names.iter().map(String::as_str).chain(in_full)
    }
}

/// What is known of nodes.
pub(super) fn by_name(snapshot: &Snapshot) -> HashMap<&str, &NodeView> {
    let nodes = snapshot.nodes.iter();
    nodes.map(|node| (node.name.as_str(), node)).collect()
}
