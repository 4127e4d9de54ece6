//! Address of a client.

use std::net::SocketAddr;

/// Address of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub SocketAddr);
