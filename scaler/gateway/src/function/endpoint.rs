//! Endpoints: the servers of instances.

use std::net::SocketAddr;

use tetris_scaler_dispatch::InstanceLoad;

use crate::pool::Pool;

/// Server of an instance, with its connections.
#[derive(Debug)]
pub struct Endpoint {
    /// Name for reports, such as the pod's.
    pub name: String,
    /// Name of its configuration.
    pub configuration: String,
    /// Its address.
    pub address: SocketAddr,
    /// Connections to it.
    pub pool: Pool,
}

/// Load of an endpoint at a moment.
#[derive(Clone, Debug)]
pub struct EndpointLoad {
    /// Name for reports.
    pub name: String,
    /// Name of its configuration.
    pub configuration: String,
    /// Its address.
    pub address: SocketAddr,
    /// Its requests and health.
    pub load: InstanceLoad,
}
