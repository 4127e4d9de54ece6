//! Parts of the process with the cluster's token and the network, and no store: `tetris-node cluster`.
//!
//! It watches the API server for the declarations of this node's pods and for namespaces, answers
//! the kubelet's probes, and serves the broker's pages to the network.
//!
//! # Guarantees
//! - No request of a pod reaches the token: the addresses answer with pages of the broker, the Unix
//!   socket answers processes of this node's root.
//! - Probes answer within their limits of time while the broker is stopped, killed or hangs.

pub(crate) mod declarations;
pub(crate) mod namespaces;
pub(crate) mod own_report;
mod pages;
pub(crate) mod reload;
mod reports;
mod socket;
pub(crate) mod trace_relay;

pub use pages::{FetchedPages, PageLimits};
pub use reports::Reports;
pub use socket::router;
