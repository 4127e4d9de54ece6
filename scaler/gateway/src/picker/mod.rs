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
//! - `held`: a body held until an instance is picked
//! - `head`, `metadata`, `answer`: parts of messages
//! - `messages`, `answers`: messages of gRPC in the bodies of a call, within limits of size, memory and progress
//! - `fields`, [`decoding`]: parts of a message, counted before they are decoded
//! - [`health`]: checks of the health of the picker
//! - `serve`, `connection`, `places`: the server, one data plane's connection, and places of streams
//!
//! **Guarantees.** A request takes a slot once its body is complete, where the data plane shows the
//! body. The slot is free again when the stream ends, at any point and in any way. A data plane holds memory only
//! within its part of the budgets, and time only within the limits of the proxy's clients: each stream has a task of
//! its own, whose timers run whether the data plane sends and reads or not.

mod answer;
mod answers;
mod connection;
pub mod decoding;
mod exchange;
mod fields;
pub mod head;
pub mod health;
mod held;
mod inbound;
mod messages;
mod metadata;
mod parts;
mod places;
mod serve;
mod stream;
pub mod wire;

pub(crate) use parts::Picker;
pub(crate) use serve::{listen, serve};
