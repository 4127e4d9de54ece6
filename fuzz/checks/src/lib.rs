//! Checks of untrusted input, one for each fuzz target, with the seeds of the targets.
//!
//! A check runs a parser, or a session with a server, and panics if a condition does not hold that holds for any input. The
//! fuzz targets and the tests of this crate run the same checks. [`replay`] reads the committed seeds, [`session`] and
//! [`steps`] are the steps of sessions with servers.

#![allow(missing_docs, reason = "parts of tests, which say what they do")]

#[cfg(feature = "cluster")]
pub mod admission_review;
pub mod daemon_session;
#[cfg(feature = "cluster")]
pub mod ext_proc;
#[cfg(feature = "cluster")]
pub mod gateway_config;
#[cfg(feature = "cluster")]
pub mod gpu_page;
pub mod hub_index;
#[cfg(feature = "cluster")]
pub mod inventory_page;
#[cfg(feature = "cluster")]
pub mod keda;
pub mod layout_table;
#[cfg(feature = "cluster")]
pub mod loads_page;
pub mod manifest;
pub mod manifest_repair;
pub mod mirror_session;
pub mod node_message;
pub mod persisted_state;
#[cfg(feature = "cluster")]
pub mod prometheus_answer;
pub mod replay;
pub mod safetensors_header;
pub mod seeds;
pub mod session;
pub mod sidecar;
pub mod steps;
pub mod store_files;
pub mod wire;
