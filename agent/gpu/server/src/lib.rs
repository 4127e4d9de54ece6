//! Server of the GPU mirror: one copy of each tensor in device memory, shared by every process of a node.
//!
//! | module | contents | pure |
//! |---|---|---|
//! | [`arena`] | positions of objects within chunks | yes |
//! | [`residency`] | models on each device, the clients that hold them, and eviction | yes |
//! | [`copy`] | plans of copies (groups, order, group size), and their execution | all but the execution |
//! | [`template`] | division of a budget between the prefixes of models | yes |
//! | [`Server`] | hands device memory out to other processes | no |
//!
//! Beside this crate there are those of device memory (`tetris-gpu-device`), of the messages (`tetris-gpu-protocol`, see
//! `PROTOCOL.md`) and of the clients (`tetris-gpu-client`). Host copies stay in the store (`LAYOUT.md`), so eviction copies
//! nothing back. Functions take the time as an argument. Only the server starts threads or opens sockets.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod arena;
pub mod copy;
pub mod residency;
mod server;
pub mod template;

pub use server::*;
