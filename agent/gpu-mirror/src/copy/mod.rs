//! Transfers of objects from the store to a device.
//!
//! A [`TransferPlan`] cuts an admission's copies into groups of about the size at which throughput
//! stops growing ([`elbow`]; Torpor 4.3 found about 2 MB). It splits long objects and joins
//! adjacent ones. Groups are in order of access and each ends with an event. [`Progress`] then
//! knows the complete objects, so a consumer starts on the first tensors while later ones are still
//! in flight (TIDAL 5.2).
//!
//! Where the driver can register the store's pages, the [`Executor`] copies straight from them: it
//! registers each mapping once, within a limit. Otherwise it copies through a ring of pinned
//! buffers.

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
