//! One actor at a time, by a Lease of `coordination.k8s.io`.
//!
//! **Flow.** Replicas ask for the lease from time to time. One that finds it free, its own, or not renewed for
//! as long as the holder said, writes its name into it; the API server's versions let one write through. The holder
//! renews it three times within its duration, and gives it back when it stops.
//!
//! **Guarantees.** [`Leadership::remaining`] ends [`Timing::margin`] before anybody else takes the lease: the holder
//! counts from before it asked for its renewal, others from when they saw it. Both measure spans with their own
//! clocks, and compare no times of day. Nothing is begun that could take longer than what remains.
//!
//! **Assumptions.** Clocks run at about the same speed: the margin is a third of the duration. A request that
//! the API server carries out later than the client gave it up is refused for the version of what it writes.

mod elector;
mod error;
mod leadership;
mod record;

pub use elector::{Elector, Names};
pub use error::LeaseError;
pub use leadership::Leadership;
pub use record::Timing;
