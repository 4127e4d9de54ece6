//! Endpoint picker of the Gateway API Inference Extension: the same dispatch for data planes of
//! others, such as Envoy, Istio and kgateway, by Envoy's external processing.
//!
//! The data plane opens a stream for each request. It sends the head and the body, and waits. The
//! picker finds the function as the proxy does, and queues the request. Then it names the instance
//! in a header and in metadata, and the data plane sends the request there. The stream stays open
//! for the response, whose end frees the instance's room.
//!
//! - [`wire`]: messages of the protocol
//! - `stream`: the stream of one request, until it has an instance
//! - `exchange`: the rest of the stream, until the response has ended
//! - `inbound`: messages of a data plane, and its departure
//! - `held`: a body that is held until an instance is picked
//! - `head`, `metadata`, `answer`: parts of messages
//! - [`health`]: checks of the health of the picker
//! - [`shape`], `codec`, `messages`: limits of messages before they are decoded
//! - `serve`: the server
//!
//! **Guarantees.** A request takes a slot once its body is complete, where the data plane shows the
//! body. The slot is free again when the stream ends, at any point and in any way.

mod answer;
mod codec;
mod exchange;
pub mod head;
pub mod health;
mod held;
mod inbound;
mod messages;
mod metadata;
mod parts;
mod serve;
mod services;
pub mod shape;
mod stream;
pub mod wire;

pub(crate) use parts::Picker;
pub(crate) use serve::{listen, serve};
