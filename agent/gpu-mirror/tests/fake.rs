//! The CUDA code with the fake driver: the tests with failing, full and old drivers, and with
//! accounting. `fake-driver/README.md` describes the limits of these tests.

#![allow(
    clippy::print_stdout,
    reason = "processes of a test report their progress to each other"
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
