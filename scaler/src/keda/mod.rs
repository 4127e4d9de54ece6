//! KEDA's external scaler: gives KEDA the number of instances of each configuration, each with its
//! own Deployment and ScaledObject.
//!
//! **Flow.** The trigger's metadata names the function and the configuration; the function's
//! namespace is the ScaledObject's. The value of the only metric, [`METRIC`], is the decided number
//! of instances, with a target of 1 per instance. So the autoscaler's `ceil(value / target)` is
//! that number. Zero is inactive.
//!
//! **Guarantees.** Until a decision exists the scaler returns an error, not 0, so KEDA and the
//! autoscaler change nothing. A stream sends only changes and keeps only the latest: a slow client
//! costs no memory. Messages, streams and connections' headers are bounded, and dead connections
//! are closed.
//!
//! **Replicas.** Any replica can answer. One without a decision answers UNAVAILABLE, and its
//! streams wait for the first decision.

mod calls;
mod serve;
mod stream;
mod target;
pub mod wire;

pub use serve::{KedaLimits, Scaler, serve, service};
pub use target::{METRIC, NoTarget, Target, replicas};
pub use wire::external_scaler_server::{ExternalScaler, ExternalScalerServer};
