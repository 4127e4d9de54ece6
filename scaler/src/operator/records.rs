//! What is kept of the API server's objects: no more than decisions need, so that memory is bounded by their
//! number.

mod custom;
mod deployment;
mod node;
mod pod;

pub use custom::{FunctionRecord, ProfileRecord};
pub use deployment::DeploymentRecord;
pub use node::NodeRecord;
pub use pod::{Instance, PodRecord};
