//! Records of the API server's objects, reduced to the fields that decisions need, to bound memory.

mod custom;
mod deployment;
mod node;
mod pod;

pub(in crate::operator) use custom::typed;
pub use custom::{FunctionRecord, ProfileRecord};
pub use deployment::DeploymentRecord;
pub use node::NodeRecord;
pub use pod::{GatewayPod, Instance, ModelPod, PodRecord, Refusal};
