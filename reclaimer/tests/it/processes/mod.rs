//! The daemon as processes.

mod broker;
mod cluster;
mod harness;
mod lingering;
mod messages;
mod node;
mod sandbox;
mod shares;
mod traces;
mod volumes;
