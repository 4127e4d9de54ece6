//! HTTP over Unix sockets, between processes of one daemon.
//!
//! # Guarantees
//! - Each request carries the user of the process that sent it ([`Peer`]), as reported by the kernel.
//! - A call ends within its time limit, whatever the server does, and takes no more memory than its
//!   limit on the answer.
//! - The name of a socket on which no one listens is taken over. A living one is left alone.
//!
//! # Caveats
//! Every user that reaches the socket's directory may connect, so the directory decides which
//! processes can.

mod client;
mod error;
mod server;

pub use client::UnixClient;
pub use error::UnixHttpError;
pub use server::{Peer, listen, serve};
