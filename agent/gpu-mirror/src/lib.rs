//! One copy of each tensor in device memory, shared by every process of a node.
//!
//! | module | what | pure |
//! |---|---|---|
//! | [`memory`] | device memory: chunks, mappings, copies, exports; over CUDA, and over memfds for machines without a device | no |
//! | [`arena`] | where objects lie in chunks | yes |
//! | [`residency`] | which models are on which device, for whom, and who has to go | yes |
//! | [`copy`] | how objects get there: groups, order, the size of a group; and the execution of such a plan | all but the execution |
//! | [`conformance`] | what every implementation of [`memory::DeviceMemory`] has to do | no |
//!
//! Host copies stay in the store (`LAYOUT.md`), so leaving a device copies nothing back. Time is an argument;
//! nothing here starts a thread or opens a socket.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod arena;
pub mod conformance;
pub mod copy;
pub mod memory;
pub mod residency;
