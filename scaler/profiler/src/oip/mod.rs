//! Client of the Open Inference Protocol v2 over HTTP.

mod client;
mod error;
mod metadata;
mod request;

pub(crate) use client::OipClient;
pub use error::OipError;
pub(crate) use request::{RequestShape, bodies};
