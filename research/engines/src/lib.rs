//! Simulation of engines that sleep on one device.
//!
//! The gateway's own state machine ([`tetris_scaler_dispatch::engines`]) runs on simulated time, beside the rule of routers that
//! swap per request. Engines are simulated: an order to sleep or wake takes a given time, and a request a time to its first token
//! and another one to its end, however many requests the engine has. Results follow from the seed, and from nothing else.

#![forbid(unsafe_code)]

mod policy;
mod run;
mod scenario;
mod swap;
mod trace;

pub use policy::{Act, Policy, Residency};
pub use run::{Figures, run};
pub use scenario::{Candidate, Move, Scenario, USUAL, candidates, moves};
pub use swap::SwapPerRequest;
pub use trace::{Request, Workload, trace};

/// A second, in the simulation's microseconds.
pub const SECOND: u64 = 1_000_000;
