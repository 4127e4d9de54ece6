//! The profiler on servers whose law is known (`examples/oip-server.rs`), as processes.

mod failures;
mod interruption;
mod law;
mod run;
mod sharing;
