//! KEDA's external scaler: each configuration of a function is a Deployment with a ScaledObject, and KEDA asks here how
//! many instances it is to have.
//!
//! **Flow.** The trigger's metadata names the function and the configuration; the function's namespace is the
//! ScaledObject's. The value of the only metric, [`METRIC`], is the number of instances that was decided, and an
//! instance takes 1 of it, so that the autoscaler's `ceil(value / target)` is that number. Zero is inactive.
//!
//! **Guarantees.** What was not decided is an error, never 0: KEDA and the autoscaler leave the Deployment as it is
//! while its scaler answers with errors. A stream carries changes only, and holds no more than the latest: a slow client
//! costs no memory. Messages, streams and connections' headers are bounded, and dead connections are closed.
//!
//! **Which replica.** Any: a replica that has decided nothing yet answers UNAVAILABLE, and streams wait for its first
//! decision.

mod serve;
mod services;
mod stream;
mod target;
pub mod wire;

pub use serve::{KedaLimits, serve};
pub use services::external_scaler_server::{ExternalScaler, ExternalScalerServer};
pub use target::{METRIC, NoTarget, Target, replicas};
