//! The scheduler extender: kube-scheduler asks which nodes have room for a pod's model, and which already have its tensors.
//!
//! **Flow.** A pod says whose model it loads: by the label [`labels::FUNCTION`](crate::labels::FUNCTION), which all instances have, or by the
//! annotation [`labels::PROFILE`](crate::labels::PROFILE), which names a ModelProfile that some
//! function of the namespace uses, for pods that somebody else starts. `POST /prioritize`
//! gives each node a score from 0 to 10: theta of the model over all objects of the pod's store there, and room, as
//! [`Spread`](tetris_scaler_core::Spread) weighs them. `POST /filter` takes away nodes whose store cannot hold what is
//! missing of the model, whatever is freed.
//!
//! **Guarantees.** Pods that name no model are none of our business: all nodes pass, all with score 0. So it is with models,
//! nodes and stores of which nothing is known: a load never fails because of the store, and neither does scheduling.
//! Requests are bounded in size, number and time. Nodes go back as they came.
//!
//! **Caveats.** Scores are as old as the nodes' inventories, a few seconds. Two instances that are scheduled at the same time
//! do not see each other's tensors.

mod filter;
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
