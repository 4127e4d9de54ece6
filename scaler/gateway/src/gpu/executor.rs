//! Executors: servers that are bound to one GPU each.

use std::net::SocketAddr;
use std::sync::Arc;

use tetris_scaler_dispatch::gpu::GpuId;
use tokio::sync::Notify;

use crate::endpoint::Endpoint;
use crate::pool::Pool;

/// Name of the configuration of all executors, in metrics.
const CONFIGURATION: &str = "gpu";

/// An executor.
#[derive(Debug)]
pub(super) struct Executor {
    /// Number of its GPU.
    pub gpu: GpuId,
    pub endpoint: Arc<Endpoint>,
    /// Asks for its page soon.
    pub changed: Arc<Notify>,
}

impl Executor {
    pub(super) fn new(gpu: GpuId, address: SocketAddr) -> Self {
        let endpoint = Endpoint {
            name: address.to_string(),
            configuration: CONFIGURATION.to_owned(),
            address,
            pool: Pool::new(address),
        };
        Self {
            gpu,
            endpoint: Arc::new(endpoint),
            changed: Arc::default(),
        }
    }
}
