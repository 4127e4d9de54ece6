//! Instances as their source describes them, and endpoints, which are their servers.

use std::net::SocketAddr;

use tetris_scaler_dispatch::{Capacity, InstanceLoad};

use crate::pool::Pool;

/// An instance as its source describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Identity: another instance at the same address has another one.
    pub key: String,
    /// Name for reports, e.g. the pod's.
    pub name: String,
    /// Name of its configuration, for metrics.
    pub configuration: String,
    /// Address of its server.
    pub address: SocketAddr,
    /// Capacity by its profile.
    pub capacity: Capacity,
    /// False if it gets no more requests: it is not ready, or it ends.
    pub ready: bool,
}

/// Server of an instance, with its connections.
#[derive(Debug)]
pub struct Endpoint {
    /// Name for reports, e.g. the pod's.
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
