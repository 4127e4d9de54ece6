//! The CUDA code with the fake driver: what needs a driver that fails, is full, is old, or counts. `fake-driver/README.md` says what
//! that shows and what not.

#![allow(
    clippy::print_stdout,
    reason = "processes of a test tell each other by it how far they are"
)]

#[path = "fake-driver/harness.rs"]
mod fake_driver;
mod mirror;
mod support;

#[path = "fake-driver/cases/drivers.rs"]
mod drivers;
#[path = "fake-driver/cases/every_call.rs"]
mod every_call;
#[path = "fake-driver/cases/memory.rs"]
mod memory;
#[path = "fake-driver/cases/outlives.rs"]
mod outlives;
#[path = "fake-driver/cases/registrable.rs"]
mod registrable;
#[path = "fake-driver/cases/served.rs"]
mod served;
