//! One copy of each tensor in device memory, shared by every process of a node.
//!
//! | module | what | pure |
//! |---|---|---|
//! | [`memory`] | device memory: chunks, mappings, copies, exports; over CUDA, and over memfds for machines without a device | no |
//! | [`arena`] | where objects lie in chunks | yes |
//! | [`residency`] | which models are on which device, for whom, and who has to go | yes |
//! | [`copy`] | how objects get there: groups, order, the size of a group; and the execution of such a plan | all but the execution |
//! | [`protocol`] | what the server and its clients say to each other, byte by byte (`PROTOCOL.md`) | yes |
//! | [`server`] | hands the memory out to other processes | no |
//! | [`client`] | gets it from there and maps it | no |
//! | [`compute`] | a matrix times a vector, where the matrix lies: for benchmarks | no |
//! | [`conformance`] | what every implementation of [`memory::DeviceMemory`] has to do | no |
//!
//! Host copies stay in the store (`LAYOUT.md`), so leaving a device copies nothing back. Time is an argument, and nothing
//! starts a thread or opens a socket, but in [`server`] and [`client`].

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod arena;
pub mod client;
pub mod compute;
pub mod conformance;
pub mod copy;
pub mod memory;
pub mod protocol;
pub mod residency;
pub mod server;

mod wire;
