//! Requests per second of functions and of their instances, from a Prometheus server.
//!
//! **Guarantees.** A load is known only if the server answered with valid numbers. An empty answer,
//! NaN, a negative number, an error or a timeout is a [`LoadError`], which means unknown, never
//! zero. The size of answers and the number of concurrent queries are bounded.

mod answer;
mod error;
mod prometheus;

pub use answer::{by_pod, latency, total};
pub use error::{LoadError, PrometheusError};
pub(crate) use prometheus::chain;
pub use prometheus::{Prometheus, PrometheusOptions};
