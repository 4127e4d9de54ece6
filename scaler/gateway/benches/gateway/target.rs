//! Instances in the form that proxies take.

use std::net::SocketAddr;

/// An instance with its capacity.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub address: SocketAddr,
    /// Maximum batch size.
    pub batch: usize,
    /// Number of batches at a time.
    pub concurrency: usize,
    /// Latency of one batch, in milliseconds, at least 1.
    pub latency_ms: u64,
    /// Longest time for which it waits to fill a batch, in milliseconds.
    pub batch_wait_ms: u64,
    /// Share of requests that someone would give it who knows its rate: 1 to 256.
    pub weight: usize,
}

impl Target {
    /// Number of requests in execution at once.
    pub const fn slots(&self) -> usize {
        self.batch * self.concurrency
    }
}
