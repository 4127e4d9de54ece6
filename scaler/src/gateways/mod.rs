//! Loads of functions from the gateways that their requests go through.
//!
//! **Flow.** [`GatewayClient`] fetches the page `/loads` of a gateway, over one connection that stays
//! open. [`GatewayLoads`] takes in the pages of all gateways, and returns the [`GatewayReading`] of a
//! function from them.
//!
//! **Load.** [`Arrivals::load`](tetris_scaler_core::Arrivals::load) of the arrivals at all gateways. A mean of less than 10 s
//! follows chance: at 1 request per second a mean of 2 s is off by 70 %, and each peak of it would start instances that
//! stay for a window.
//!
//! **Guarantees.** A load is known only if every ready gateway has answered a moment ago; otherwise it is a
//! [`LoadError`](crate::load::LoadError), which means unknown, never zero. A counter that begins again, with its
//! gateway or without, counts from zero. An implausible rise of a counter is an error of the gateway. Answers
//! are bounded in size. A request that waits is seen even if the load is unknown.

mod client;
mod error;
mod loads;
mod page;
mod reading;

pub use client::GatewayClient;
pub use error::{GatewayError, GatewayProblem};
pub use loads::{GatewayLoads, SILENT_AFTER};
pub use page::{FunctionPage, LatencyPage, Page};
pub use reading::GatewayReading;

use std::net::SocketAddr;

/// Port of a gateway's loads and metrics.
pub const PORT: u16 = 9471;

/// A gateway's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// Name of the pod.
    pub pod: String,
    /// Address of its loads.
    pub address: SocketAddr,
    /// True if the pod is ready and stays, so that requests go through it.
    pub is_ready: bool,
}
