//! Scheduler extender: tells kube-scheduler which nodes have room for a pod's model, and which
//! already have its tensors.
//!
//! **Flow.** A pod names its model in one of two ways. All instances have the label
//! [`labels::FUNCTION`](crate::labels::FUNCTION). A pod of another owner has the annotation
//! [`labels::PROFILE`](crate::labels::PROFILE), which names a ModelProfile that a function of the
//! namespace uses. `POST /prioritize` gives each node a score from 0 to 10.
//! [`Spread`](tetris_scaler_core::Spread) weighs the node's free resources against theta, the share
//! of the model's bytes that the node has. `POST /filter` removes nodes whose store has no room for
//! the missing tensors, even after all that is reclaimable is freed. For a function with GPUs it also
//! removes nodes of which no GPU has room, and theta counts the model's bytes in device memory too.
//!
//! **Guarantees.** All nodes pass with score 0 for pods without a model, and for unknown models and
//! stores. An unknown node passes too: a load never fails because of the store, and neither does
//! scheduling. Requests are bounded in size, number and time. Nodes return in the form in which
//! they came.
//!
//! **Caveats.** Scores are as old as the nodes' inventories, a few seconds. Two instances scheduled
//! at the same time do not see each other's tensors.

mod filter;
mod gpus;
mod http;
mod nodes;
mod prioritize;
mod wanted;
pub mod wire;

pub use filter::filter;
pub use http::{ExtenderLimits, router};
pub use nodes::{Form, MAX_NODES, NodesError};
pub use prioritize::prioritize;
pub use wanted::wanted;
