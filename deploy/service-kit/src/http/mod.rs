//! A server with limits against clients that are many, slow or hostile, and common pages.

mod address_limit;
mod listen;
mod pages;
mod serve;
mod transport;

pub use listen::{ListenError, listen};
pub use pages::{metrics_page, probe, text};
pub use serve::{ConnectionLimits, serve};
pub use transport::{OneRequest, Plain, Transport};
