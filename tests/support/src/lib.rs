//! Common parts of tests of several packages.
//!
//! | part | contents |
//! |---|---|
//! | [`alone`] | a test in a process that runs no other test |
//! | `api` | an API server of Kubernetes with namespaces, pods and tokens (feature `api`) |
//! | `collector` | a collector of traces that keeps the spans (feature `collector`) |
//! | [`command_page`], [`exit_codes_page`], [`metrics_page`] | pages of the reference that are written from the code, by way of [`generated_page`] |
//! | `docker` | images as they are deployed, run by Docker (feature `docker`) |
//! | `frames` | frames that released versions of a protocol wrote (feature `frames`) |
//! | `gpu_world` | a scheduler of GPUs that its test moves by hand, and the checks that hold at all times (feature `gpu-policies`) |
//! | `gpu_invariants` | invariants of policies under any sequence of events (feature `gpu-policies`) |
//! | `heap` | heap that a parser takes, counted by the allocator of the test (feature `heap`) |
//! | `json_schema` | documents checked against docs/schema.json (feature `json-schema`) |
//! | [`lease`] | leases of files, held by another process |
//! | `model_site` | a web server with models, as a hub and a plain site, and its faults (feature `model-site`) |
//! | `models` | models, and stores with their agents (feature `models`) |
//! | `scaler_snapshot` | snapshots as a pass of the operator publishes them (feature `scaler-snapshots`) |
//! | `mounts` | mounts in a namespace that ends with its thread (feature `mounts`) |
//! | [`promql`], [`scrape`] | names in queries of Prometheus, and metrics as text |
//! | `stats` | medians and percentiles (feature `stats`) |
//! | [`reachable`], [`settled`], [`skipped`] | programs for other users, files whose time stamps can be relied on, tests that are left out |

#![allow(missing_docs, reason = "parts of tests, which say what they do")]

pub mod alone;
#[cfg(feature = "api")]
pub mod api;
#[cfg(feature = "collector")]
pub mod collector;
pub mod command_page;
#[cfg(feature = "docker")]
pub mod docker;
pub mod exit_codes_page;
#[cfg(feature = "frames")]
pub mod frames;
pub mod generated_page;
#[cfg(feature = "gpu-policies")]
pub mod gpu_invariants;
#[cfg(feature = "gpu-policies")]
pub mod gpu_world;
#[cfg(feature = "heap")]
pub mod heap;
#[cfg(feature = "json-schema")]
pub mod json_schema;
pub mod lease;
pub mod metrics_page;
#[cfg(feature = "model-site")]
pub mod model_site;
#[cfg(feature = "models")]
pub mod models;
#[cfg(feature = "mounts")]
pub mod mounts;
pub mod promql;
pub mod reachable;
#[cfg(feature = "scaler-snapshots")]
pub mod scaler_snapshot;
pub mod scrape;
pub mod settled;
pub mod skipped;
#[cfg(feature = "stats")]
pub mod stats;
