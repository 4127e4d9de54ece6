//! The evaluation of TIDAL on the simulated device: `just reproduce-tidal`.
//!
//! The mirror's server, its protocol, its prefixes and the waits of a stream are the real ones. The
//! link and the kernels are injected: bandwidth, and a time for each kernel. All bytes and the
//! bandwidth are divided by [`SCALE`], so times are those of the full size.

mod figures;
mod invocation;
mod node;
mod paper;
mod report;

use std::path::Path;

pub use report::TidalReport;

use crate::BenchError;

/// Divisor of bytes and bandwidths.
pub const SCALE: u64 = 100;

/// Runs all experiments, `rounds` times each, with stores in `directory`, which is on a tmpfs.
///
/// # Errors
///
/// [`BenchError`] if the directory cannot be used, or the mirror fails.
pub fn reproduce(directory: &Path, rounds: usize) -> Result<TidalReport, BenchError> {
    figures::all(directory, rounds.max(1))
}
