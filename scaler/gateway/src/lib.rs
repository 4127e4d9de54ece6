//! The gateway of Tetris 3.1: a proxy before the instances of functions.
//!
//! A request goes to the instance that [`tetris_scaler_dispatch`] chooses: by capacity, with full
//! batches, away from instances that fail. It waits in a bounded queue while no instance has room,
//! also while there is none at all.
//!
//! - [`config`]: the file of functions and their endpoints
//! - `cluster`: functions and instances of a cluster
//! - `callers`: who sends a request, and whether its function is for them
//! - [`function`]: a function, with its own instances or a pool of GPUs
//! - `instances`: queue and instances of one function
//! - [`gpu`]: pools of GPUs, to which requests of many functions are bound when they are dispatched
//! - `engines`: engines that take turns in the memory of one device
//! - [`routes`]: the function of a request, by path and host
//! - [`proxy`]: requests, answers and limits
//! - [`picker`]: the same choice for data planes of others, by Envoy's external processing
//! - [`memory`]: budgets of memory that clients make the gateway hold
//! - [`pool`]: connections to instances
//! - [`server`]: connections of clients
//!
//! **Guarantees.** A request is sent again only if nothing of it was sent, or if the configuration
//! calls its function idempotent and no answer has begun. It takes a slot of an instance only once its
//! body is complete: a slow client occupies no one. Each request that goes on has its length in one
//! header, which the gateway wrote.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

mod access_log;
mod bounded_reads;
mod callers;
mod candidate;
pub mod cli;
mod client_address;
mod clock;
mod cluster;
pub mod config;
pub mod endpoint;
mod engines;
pub mod function;
pub mod function_name;
mod functions;
pub mod gpu;
mod instances;
mod loads;
pub mod memory;
pub mod metrics;
mod normal_path;
mod pages;
pub mod picker;
pub mod pool;
pub mod problem;
pub mod proxy;
mod recent;
pub mod refusal;
pub mod routes;
pub mod run;
pub mod server;
mod traces;
