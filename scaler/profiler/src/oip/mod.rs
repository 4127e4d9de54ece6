//! The Open Inference Protocol v2 over HTTP, as a client.

mod client;
mod error;
mod metadata;
mod request;

pub(crate) use client::OipClient;
pub use error::OipError;
pub(crate) use request::{RequestShape, bodies};
