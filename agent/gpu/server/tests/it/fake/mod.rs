//! The CUDA code with the fake driver: the tests with failing, full and old drivers, and with
//! accounting. `fake-driver/README.md` describes the limits of these tests.

#![allow(
    clippy::print_stdout,
    reason = "processes of a test report their progress to each other"
)]

mod across;
mod drivers;
mod every_call;
mod layouts;
pub mod lifetimes;
mod mappings;
mod memory;
mod options;
pub mod outlives;
mod registrable;
mod registrations;
pub mod served;
mod spares;
mod starts;
mod waits;
