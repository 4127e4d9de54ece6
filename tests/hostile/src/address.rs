//! Addresses for servers of a test.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// An address at which no server listens. Its host is this process's own: the ports of others, who may open thousands
/// of connections meanwhile, are those of other hosts.
///
/// # Panics
/// When the system has no port left.
#[expect(clippy::expect_used, reason = "a test cannot go on without a port")]
pub fn free_address() -> SocketAddr {
    unused_address().expect("no port is left")
}

fn unused_address() -> io::Result<SocketAddr> {
    let [low, high, ..] = std::process::id().to_le_bytes();
    TcpListener::bind((Ipv4Addr::new(127, 1, high, low), 0))?.local_addr()
}
