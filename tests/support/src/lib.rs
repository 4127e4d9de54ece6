//! Common parts of tests of several packages.
//!
//! | part | contents |
//! |---|---|
//! | `api` | an API server of Kubernetes with namespaces, pods and tokens (feature `api`) |
//! | `collector` | a collector of traces that keeps the spans (feature `collector`) |
//! | [`command_page`], [`exit_codes_page`], [`metrics_page`] | pages of the reference that are written from the code, by way of [`generated_page`] |
//! | `docker` | images as they are deployed, run by Docker (feature `docker`) |
//! | `gpu_world` | a scheduler of GPUs that its test moves by hand, and the checks that hold at all times (feature `gpu-policies`) |
//! | `gpu_invariants` | invariants of policies under any sequence of events (feature `gpu-policies`) |
//! | `json_schema` | documents checked against docs/schema.json (feature `json-schema`) |
//! | [`lease`] | leases of files, held by another process |
//! | `models` | models, and stores with their agents (feature `models`) |
//! | [`promql`], [`scrape`] | names in queries of Prometheus, and metrics as text |
//! | [`reachable`], [`settled`], [`skipped`] | programs for other users, files whose time stamps can be relied on, tests that are left out |

#![allow(missing_docs, reason = "parts of tests, which say what they do")]

#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "collector")]
pub mod collector;
pub mod command_page;
#[cfg(feature = "docker")]
pub mod docker;
pub mod exit_codes_page;
pub mod generated_page;
#[cfg(feature = "gpu-policies")]
pub mod gpu_invariants;
#[cfg(feature = "gpu-policies")]
pub mod gpu_world;
#[cfg(feature = "json-schema")]
pub mod json_schema;
pub mod lease;
pub mod metrics_page;
#[cfg(feature = "models")]
pub mod models;
pub mod promql;
pub mod reachable;
pub mod scrape;
pub mod settled;
pub mod skipped;
