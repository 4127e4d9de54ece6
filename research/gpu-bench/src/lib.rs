//! Benchmark of the GPU mirror on a device: `gpu-bench`.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | the command line |
//! | [`backend`] | a GPU, or host memory in its place |
//! | [`bench`](mod@bench) | the environment that all measures share: store, model, device, settings, processes |
//! | [`measure`] | measures, their names and needs |
//! | [`overlap`] | first product and whole pass while the model is still being copied |
//! | [`family`] | device memory of an extra function: a base with adapters, or a backbone with heads |
//! | [`role`] | the code of a measure's processes |
//! | [`process`] | start, communication and end of processes |
//! | [`model`] | a model in a store: generated, or from a file |
//! | [`tidal`] | the evaluation of TIDAL on the simulated device |
//! | [`report`] | samples, figures and bars, as JSON and as text |
//!
//! Children are processes of the same program (`--role`). They read their order from standard input
//! and answer on standard output. They end with their parent in every case, and one of them removes
//! the run's files.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod args;
pub mod backend;
pub mod bench;
pub mod compute;
pub mod family;
pub mod measure;
pub mod model;
pub mod overlap;
pub mod process;
pub mod report;
pub mod role;
pub mod tidal;

mod calibrate;
mod error;
mod keep;
mod machine;
mod products;
mod progress;
mod registry;
mod room;
mod run;
mod source;
mod stats;
mod timeout;
mod units;

pub use args::GpuBenchArgs;
pub use error::BenchError;
pub use report::Report;
pub use run::run;
