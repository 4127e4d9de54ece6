//! Errors of reading a gateway's loads.

use std::fmt;
use std::net::SocketAddr;

use super::Gateway;

/// The reason a gateway's loads are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayError {
    /// Name of the gateway's pod.
    pub gateway: String,
    /// Address of its loads.
    pub address: SocketAddr,
    /// Cause.
    pub problem: GatewayProblem,
}

/// Cause of a [`GatewayError`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GatewayProblem {
    /// No connection, or no answer in time.
    Unreachable(String),
    /// An answer with another HTTP status than 200.
    Status(u16),
    /// An answer that is not a page of loads, or not of this gateway.
    Malformed(String),
}

impl GatewayError {
    /// Creates an error of `gateway`.
    pub(super) fn new(gateway: &Gateway, problem: GatewayProblem) -> Self {
        Self {
            gateway: gateway.pod.clone(),
            address: gateway.address,
            problem,
        }
    }

    /// Class of the error in the metrics.
    pub const fn class(&self) -> &'static str {
        match self.problem {
            GatewayProblem::Unreachable(_) => "gateway_unreachable",
            GatewayProblem::Status(_) => "gateway_status",
            GatewayProblem::Malformed(_) => "gateway_malformed",
        }
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gateway {} at {}: ", self.gateway, self.address)?;
        match &self.problem {
            GatewayProblem::Unreachable(problem) => write!(
                f,
                "{problem}; check that it runs and that the network lets port {} through",
                self.address.port()
            ),
            GatewayProblem::Status(status) => write!(
                f,
                "found HTTP {status} for /loads, expected 200; use a gateway and a scaler of the same release"
            ),
            GatewayProblem::Malformed(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for GatewayError {}
