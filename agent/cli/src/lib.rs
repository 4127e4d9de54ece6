//! Diagnoses of a machine, a store, a model and a process, and the processes that hold models: the parts of the command
//! `tetris` that the Python package has too.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod doctor;
pub mod holders;
