//! Templates: the prefix of a model that stays on a device, so that the rest arrives while it runs.
//!
//! After TIDAL (arXiv:2503.06421), 5.2. A model whose first token takes `T` on a warm device hides
//! the copy of `T x B` bytes at `B` bytes per second. Only the prefix before these bytes must be
//! resident, in the order of the first use of its objects.
//!
//! Pure: no I/O, no clock. [`prefix_bytes`] is equation (1), [`Estimate`] follows the measured
//! bandwidth and time to first token, and [`allocate`] divides a budget between models.

mod allocate;
mod estimate;
mod prefix;

pub use allocate::{Demand, allocate};
pub use estimate::Estimate;
pub use prefix::prefix_bytes;
