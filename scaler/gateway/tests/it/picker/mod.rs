//! Tests of the endpoint picker with a data plane that sends scripted messages.

mod bodies;
pub mod data_plane;
mod endings;
mod health;
mod hostile;
mod memory;
mod pace;
mod picking;
mod refusals;
