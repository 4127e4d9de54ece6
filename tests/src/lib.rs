//! Common code of the tests across crates: scratch stores and mounts, model files, worker
//! processes, and the checks of LAYOUT.md's invariants.
//!
//! Whatever must be its own process, because it is killed, limited or stripped of privileges,
//! is a [`task::Task`] of the program `tetris-test-worker`.

pub mod check;
pub mod crash;
pub mod faults;
pub mod image;
pub mod model;
pub mod mount;
pub mod pool;
pub mod process;
pub mod programs;
pub mod scratch;
pub mod skip;
pub mod sources;
pub mod task;
mod tasks;
pub mod torture;

pub use tasks::run;

/// Path of the worker program, from an integration test.
#[macro_export]
macro_rules! worker_exe {
    () => {
        env!("CARGO_BIN_EXE_tetris-test-worker")
    };
}
