//! How objects get from the store onto a device.
//!
//! A [`TransferPlan`] cuts what an admission lists into groups of about the size at which throughput stops to grow
//! ([`elbow`]; Torpor 4.3 found about 2 MB): long objects are split, neighbours go together. Groups are in the order
//! in which the objects are wanted, each ends with an event, and [`Progress`] says which objects are complete
//! when it happens, so that a consumer starts on the first tensors while later ones still come (TIDAL 5.2).
//!
//! The [`Executor`] copies straight from the store's pages where the driver lets them be registered, once for each mapping
//! and within a limit, and through a ring of pinned buffers otherwise.

mod calibrate;
mod error;
mod executor;
mod measure;
mod plan;
mod progress;
mod registrar;
mod staging;
mod store_pages;

#[cfg(test)]
mod tests;

pub use calibrate::{Sample, elbow};
pub use error::{CopyError, ExecutorConfigError};
pub use executor::{Executor, ExecutorConfig, Report};
pub use measure::{DEFAULT_SIZES, measure};
pub use plan::{DEFAULT_GROUP_BYTES, Group, Piece, TransferPlan};
pub use progress::Progress;
pub use registrar::{Registrar, Uses};
pub use store_pages::StorePages;
