//! One copy of each tensor in device memory, shared by every process of a node.
//!
//! | module | contents | pure |
//! |---|---|---|
//! | [`memory`] | device memory: chunks, mappings, copies, exports; over CUDA, and over memfds for machines without a device | no |
//! | [`arena`] | positions of objects within chunks | yes |
//! | [`residency`] | models on each device, the clients that hold them, and eviction | yes |
//! | [`copy`] | plans of copies (groups, order, group size), and their execution | all but the execution |
//! | [`protocol`] | messages between the server and its clients, byte by byte (`PROTOCOL.md`) | yes |
//! | [`server`] | hands device memory out to other processes | no |
//! | [`client`] | gets device memory from the server and maps it | no |
//!
//! Host copies stay in the store (`LAYOUT.md`), so eviction copies nothing back. Functions take the
//! time as an argument. Only [`server`] and [`client`] start threads or open sockets.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod arena;
pub mod client;
pub mod copy;
pub mod memory;
pub mod protocol;
pub mod residency;
pub mod server;
pub mod template;
