//! The daemon as processes.

#[cfg(feature = "node")]
mod broker;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod cluster;
#[cfg(feature = "node")]
mod harness;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod lingering;
#[cfg(feature = "node")]
mod messages;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod node;
#[cfg(feature = "node")]
mod sandbox;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod shares;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod traces;
#[cfg(all(feature = "kubernetes", feature = "node"))]
mod volumes;
