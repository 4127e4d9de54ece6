//! The daemon as processes: the messages between them, and the parts that each has.
//!
//! Each process serves HTTP with JSON on a Unix socket in its directory. The others connect to
//! it, and can only read the directory.

pub(crate) mod broker;
pub mod cluster;
pub mod messages;
pub mod mirror;
pub(crate) mod reporter;
pub mod sandbox;
pub(crate) mod traces;
mod usage;
pub mod volumes;
