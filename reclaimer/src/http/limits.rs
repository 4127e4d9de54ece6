//! Bounds against clients that are many, slow or hostile.
//!
//! A connection is for one request. It has [`Limits::request`] to send all of it,
//! [`Limits::wait`] until the answer begins, and [`Limits::answer`] to take the answer; then it is
//! cut, wherever it is. Each counts from one event, so trickling bytes gains nothing. hyper bounds
//! the head of a request by itself (400 KiB, 100 fields), and no page reads a body.

use std::time::Duration;

use tetris_service_kit::http::{ConnectionLimits, OneRequest};

/// Limits of HTTP clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. A newcomer displaces the oldest one of the address that has the most.
    pub connections: usize,
    /// Connections at once of one address. A newcomer displaces the oldest one.
    pub per_address: usize,
    /// Time for a request to arrive, from the connection on.
    pub request: Duration,
    /// Further time until the answer begins, for pages that another process makes.
    pub wait: Duration,
    /// Time for the client to read its answer, from the first byte on.
    pub answer: Duration,
    /// Time for clients to read answers when the server stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            per_address: 32,
            request: Duration::from_secs(5),
            wait: Duration::ZERO,
            answer: Duration::from_secs(30),
            stop: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Limits of the server of probes. Its answers fit into a packet and take no time, so all that
    /// keeps a connection open is a client that is slow. Pods may share their address with the
    /// kubelet, as those of the host's network do: an address may have every place.
    pub fn of_probes() -> Self {
        Self {
            connections: 512,
            per_address: 512,
            request: Duration::from_secs(2),
            wait: Duration::ZERO,
            answer: Duration::from_secs(2),
            stop: Duration::from_secs(1),
        }
    }

    /// These limits for pages whose making takes at most `wait`.
    #[must_use]
    pub fn with_wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Limits on connections.
    pub fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.connections,
            per_address: self.per_address,
            head: self.request,
            pace: ConnectionLimits::PACE,
            stop: self.stop,
        }
    }

    /// Deadlines of each connection.
    pub fn transport(&self) -> OneRequest {
        OneRequest {
            request: self.request + self.wait,
            answer: self.answer,
        }
    }
}
