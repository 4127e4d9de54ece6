//! Client of model servers over HTTP: of the Open Inference Protocol v2, or of OpenAI's completions.

mod client;
mod error;
mod metadata;
mod request;

pub(crate) use client::OipClient;
pub use client::Protocol;
pub use error::OipError;
pub(crate) use request::{RequestShape, bodies, completions};
