//! Requests per second of functions and of their instances, from a Prometheus server.
//!
//! **Guarantees.** A load is known only if the server answered with numbers that are: an empty answer, NaN, a
//! negative number, an error or no answer within the time are [`LoadError`]s, and mean "not known", never zero. Answers
//! are bounded in size and queries in number at once.

mod answer;
mod error;
mod prometheus;

pub use answer::{by_pod, total};
pub use error::{LoadError, PrometheusError};
pub(crate) use prometheus::chain;
pub use prometheus::{Prometheus, PrometheusOptions};
