//! Tests of the profiler as a process, on servers with a known law (`examples/oip-server.rs`).

mod completions;
mod failures;
mod interruption;
mod law;
mod run;
mod served;
mod sharing;
