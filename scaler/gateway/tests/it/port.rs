//! Ports that stay a test's own while no one listens on them.
//!
//! The system gives a free port to the next process that asks for one. A test that expects no one
//! at the address of a server that has ended must keep its port.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// Number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A port of this machine. While no one listens on it, connections to it are refused.
#[must_use]
pub struct Port {
    pub address: SocketAddr,
    _bound: TcpSocket,
}

impl Port {
    /// Takes a free port.
    pub fn take() -> Self {
        let bound = bind("127.0.0.1:0".parse().unwrap());
        Self {
            address: bound.local_addr().unwrap(),
            _bound: bound,
        }
    }

    /// Listens on the port.
    pub fn listen(&self) -> TcpListener {
        bind(self.address).listen(BACKLOG).unwrap()
    }
}

fn bind(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    // Sockets of one user can share a port if all of them say so. Only those that listen get
    // connections.
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}
