//! Leader election by a Lease of `coordination.k8s.io`.
//!
//! **Flow.** The lease comes with the manifests, without a holder. Replicas request it periodically. A replica takes the lease if it is free, its
//! own, or not renewed for the duration that the holder wrote. The API server's resource versions
//! admit one of concurrent writes. The holder requests a renewal five times within the duration, and
//! releases the lease when it stops.
//!
//! **Guarantees.** [`Leadership::remaining`] ends [`Timing::margin`] before another replica takes
//! the lease: the holder counts from before its request, the others from the moment they saw the
//! renewal. Each measures spans with its own clock and compares no times of day. The operator
//! begins nothing that could take longer than the time left.
//!
//! **Assumptions.** Clocks run at about the same speed: the margin is a third of the duration. If
//! the API server executes a request after its client gave up, the stale resource version makes it
//! fail.

mod elector;
mod error;
mod leadership;
mod record;

pub use elector::{Elector, Names};
pub use error::LeaseError;
pub use leadership::Leadership;
pub use record::Timing;
