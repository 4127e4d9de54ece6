//! The daemon as processes: the messages between them, and the parts that each has.
//!
//! Each process serves HTTP with JSON on a Unix socket of its own directory. The others connect to
//! it, and can only read the directory.

#[cfg(feature = "node")]
pub(crate) mod broker;
#[cfg(all(feature = "kubernetes", feature = "node"))]
pub mod cluster;
pub mod messages;
#[cfg(feature = "node")]
pub mod mirror;
#[cfg(feature = "node")]
pub(crate) mod reporter;
#[cfg(feature = "node")]
pub mod sandbox;
#[cfg(feature = "node")]
pub(crate) mod traces;
#[cfg(feature = "node")]
mod usage;
#[cfg(feature = "node")]
pub mod volumes;
