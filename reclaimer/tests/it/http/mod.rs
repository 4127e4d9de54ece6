//! Pages and metrics of the daemon, and the dashboard and alerts over them.

mod conditional;
mod dashboard;
mod endpoints;
mod exposition;
pub mod fixtures;
mod gpu;
mod ingest;
mod large;
mod network;
mod objects;
mod page;
mod socket;
