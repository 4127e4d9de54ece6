//! What the GPU mirror costs and saves, measured on a device: `tetris gpu-bench`.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | what can be said on the command line |
//! | [`backend`] | a device, or the stand-in for one |
//! | [`bench`](mod@bench) | what every measure finds prepared: store, model, device, settings, processes |
//! | [`measure`] | the measures and their registry |
//! | [`overlap`] | first product and whole pass while a model is still copied |
//! | [`family`] | a base with adapters, or a backbone with heads: what an extra function takes |
//! | [`role`] | what the processes of a measure do |
//! | [`process`] | starting them, talking to them, and their end |
//! | [`model`] | a model in a store: made up, or from a file |
//! | [`report`] | samples, figures and bars, as JSON and as text |
//!
//! Children are processes of the same program (`--role`), which take what they have to do from standard input and answer on
//! standard output. They end with their parent, whatever ends it; what was written is removed by one of them.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod args;
pub mod backend;
pub mod bench;
pub mod family;
pub mod measure;
pub mod model;
pub mod overlap;
pub mod process;
pub mod report;
pub mod role;

mod calibrate;
mod error;
mod machine;
mod products;
mod room;
mod run;
mod stats;
mod units;

pub use args::GpuBenchArgs;
pub use error::BenchError;
pub use report::Report;
pub use run::run;
