//! Why a node's inventory is not known.

use std::net::SocketAddr;

use thiserror::Error;

/// Why a node's inventory is not known.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PollError {
    /// No answer.
    #[error(
        "node {node}: daemon at {address}: {problem}; check that it runs and that the network lets port 9460 through"
    )]
    Unreachable {
        /// The node.
        node: String,
        /// Where its daemon was asked.
        address: SocketAddr,
        /// What went wrong.
        problem: String,
    },
    /// An answer that is none.
    #[error("node {node}: daemon at {address}: {problem}")]
    Malformed {
        /// The node.
        node: String,
        /// Where its daemon was asked.
        address: SocketAddr,
        /// What is wrong with the answer.
        problem: String,
    },
}

impl PollError {
    /// For the metrics.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "inventory_unreachable",
            Self::Malformed { .. } => "inventory_malformed",
        }
    }
}
