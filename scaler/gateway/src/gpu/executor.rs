//! Executors: servers bound to one GPU each.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tetris_scaler_dispatch::gpu::GpuId;
use tokio::sync::Notify;

use crate::endpoint::Endpoint;
use crate::pool::Pool;

/// Name of the configuration of all executors, in metrics.
const CONFIGURATION: &str = "gpu";

/// Addresses of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutorAddresses {
    /// Address at which it takes requests.
    pub requests: SocketAddr,
    /// Address at which it takes orders, if it is another one.
    pub orders: Option<OrdersAddress>,
}

/// Address at which an executor takes orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrdersAddress {
    pub address: SocketAddr,
    /// File with the bearer token.
    pub token_file: Arc<Path>,
}

/// An executor.
#[derive(Debug)]
pub(super) struct Executor {
    /// Number of its GPU.
    pub gpu: GpuId,
    pub addresses: ExecutorAddresses,
    /// Server of requests.
    pub endpoint: Arc<Endpoint>,
    /// Server of orders.
    pub orders: Arc<Endpoint>,
    /// Asks for its page soon.
    pub changed: Arc<Notify>,
}

impl Executor {
    pub(super) fn new(gpu: GpuId, addresses: ExecutorAddresses) -> Self {
        let endpoint = endpoint(addresses.requests);
        let orders = match &addresses.orders {
            Some(orders) => self::endpoint(orders.address),
            None => Arc::clone(&endpoint),
        };
        Self {
            gpu,
            addresses,
            endpoint,
            orders,
            changed: Arc::default(),
        }
    }

    /// File with the token of orders.
    pub(super) fn token_file(&self) -> Option<&Path> {
        Some(&self.addresses.orders.as_ref()?.token_file)
    }
}

fn endpoint(address: SocketAddr) -> Arc<Endpoint> {
    Arc::new(Endpoint {
        name: address.to_string(),
        configuration: CONFIGURATION.to_owned(),
        address,
        pool: Pool::new(address),
    })
}
