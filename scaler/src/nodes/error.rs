//! Errors of reading a node's inventory.

use std::io;
use std::net::SocketAddr;

use tetris_scaler_core::{InventoryFull, MAX_GPUS};
use thiserror::Error;

/// Number of characters of a page that a message repeats.
pub(super) const MAX_SHOWN: usize = 256;

/// The reason a page of a daemon is refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// Damaged compression.
    #[error("the page's compression: {0}")]
    Compression(io::Error),
    /// Too large a page.
    #[error("more than {0} bytes")]
    TooLarge(usize),
    /// A field that does not parse, or is missing.
    #[error("the page: {0}")]
    Field(String),
    /// Another version of the page.
    #[error(
        "found version {found} of the page, expected {expected}; use a scaler and a daemon of the same release"
    )]
    Version {
        /// The version found.
        found: u32,
        /// The version expected.
        expected: u32,
    },
    /// The page of another node.
    #[error("found the page of node {found:?}, expected {expected:?}")]
    Node {
        /// Beginning of the name found.
        found: String,
        /// The name expected.
        expected: String,
    },
    /// Too many GPUs.
    #[error("found {0} GPUs, expected at most {MAX_GPUS}")]
    Gpus(usize),
    /// An invalid type of GPU.
    #[error("type of GPU {uuid}: {problem}")]
    GpuType {
        /// Beginning of the GPU's UUID.
        uuid: String,
        /// Mistake in the type.
        problem: String,
    },
}

/// The reason a node's inventory is unknown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PollError {
    /// No answer of the daemon.
    #[error(
        "node {node}: daemon at {address}: {problem}; check that it runs and that the network lets port 9466 through"
    )]
    Unreachable {
        /// Name of the node.
        node: String,
        /// Address of its daemon.
        address: SocketAddr,
        /// Cause.
        problem: String,
    },
    /// No token for the daemon, or a daemon that does not accept it.
    #[error("node {node}: daemon at {address}: {problem}; {next_step}")]
    Refused {
        /// Name of the node.
        node: String,
        /// Address of its daemon.
        address: SocketAddr,
        /// Cause.
        problem: String,
        /// The administrator's next step.
        next_step: &'static str,
    },
    /// A malformed answer.
    #[error("node {node}: daemon at {address}: {problem}")]
    Malformed {
        /// Name of the node.
        node: String,
        /// Address of its daemon.
        address: SocketAddr,
        /// Cause.
        problem: String,
    },
    /// A list without room in the inventory: the node's last list stays in force.
    #[error("{0}; the node's new inventory is ignored until there is room")]
    Full(#[from] InventoryFull),
}

impl PollError {
    /// Name of the node.
    pub fn node(&self) -> &str {
        match self {
            Self::Unreachable { node, .. }
            | Self::Refused { node, .. }
            | Self::Malformed { node, .. }
            | Self::Full(InventoryFull { node, .. }) => node,
        }
    }

    /// Class of the error in the metrics.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "inventory_unreachable",
            Self::Refused { .. } => "inventory_refused",
            Self::Malformed { .. } => "inventory_malformed",
            Self::Full(_) => "inventory_full",
        }
    }
}
