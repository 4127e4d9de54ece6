//! Every committed seed of the fuzz targets, through the check that its target runs, without a fuzzer.

mod agent;
#[cfg(feature = "cluster")]
mod gateway;
mod gpu;
mod hostile_headers;
mod loader;
mod node;
#[cfg(feature = "cluster")]
mod scaler;
mod store;
#[cfg(feature = "cluster")]
mod webhook;
