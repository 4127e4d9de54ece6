//! Transfers of objects from the store to a device.
//!
//! A [`TransferPlan`] cuts an admission's copies into groups of about the size at which throughput
//! stops growing ([`elbow`]; Torpor 4.3 found about 2 MB). It splits long objects and joins
//! adjacent ones. Groups are in order of access and each ends with an event. [`Progress`] then
//! knows the complete objects, so a consumer starts on the first tensors while later ones are still
//! in flight (TIDAL 5.2).
//!
//! The [`Executor`] copies straight from the store's pages where the driver has them registered, and
//! the rest through a ring of pinned buffers, which several threads fill. It registers nothing while
//! a transfer runs, because the driver takes about as long for that as for the copy, and holds up
//! other calls meanwhile. Between transfers the [`RegistrationThread`] registers the staged memory,
//! piece by piece and within a limit, for the next time.

mod calibrate;
mod error;
mod executor;
mod executor_config;
mod gather;
mod lengths;
mod link;
mod measure;
mod plan;
mod progress;
mod queue;
mod refusals;
mod registrar;
mod registration_thread;
mod report;
mod staging;
mod store_pages;
mod transfer;

#[cfg(test)]
mod tests;

pub use calibrate::{Sample, best_group_bytes, elbow};
pub use error::{CopyError, ExecutorConfigError};
pub use executor::Executor;
pub use executor_config::ExecutorConfig;
pub use lengths::LEAST_REGISTERED_BYTES;
pub use measure::{DEFAULT_SIZES, measure};
pub use plan::{DEFAULT_GROUP_BYTES, Group, Piece, TransferPlan};
pub use progress::Progress;
pub use registrar::{Registrar, Uses};
pub use registration_thread::RegistrationThread;
pub use report::Report;
pub use store_pages::StorePages;
