//! A server with limits against clients that are many, slow or hostile, and common pages.

mod listen;
mod open_connections;
mod paced;
mod pages;
mod serve;
mod transport;

pub use listen::{ListenError, listen};
pub use pages::{NotReady, metrics_page, probe, text};
#[cfg(feature = "unix-http")]
pub(crate) use serve::{Accept, Accepted, Open, serve_on};
pub use serve::{ClientAddress, ConnectionLimits, serve};
pub use transport::{OneRequest, Plain, TimedStream, Transport};
