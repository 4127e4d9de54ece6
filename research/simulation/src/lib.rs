//! Common parts of `reclaimer-replay` and `scaler-simulate`, which compare policies on traces.
//!
//! Results follow from seeds ([`Rng`]) and from files of real traces ([`traces`]), and from nothing else. [`page`] formats a report as one page with plots,
//! and [`ReportArgs`] writes it.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod page;
mod report;
mod rng;
mod trace_kind;
mod trace_source;
pub mod traces;

pub use report::{ReportArgs, ReportFormat};
pub use rng::Rng;
pub use trace_kind::TraceKind;
pub use trace_source::TraceSource;
