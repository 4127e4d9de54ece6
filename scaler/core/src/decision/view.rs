//! Observed functions, instances and nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::gpu::GpuView;
use crate::inventory::{Inventory, ModelTensors};
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::scale_in::ScaleInPolicy;
use crate::score::Resources;

/// Constant properties of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionModel {
    /// Name of the function, for messages.
    pub name: String,
    /// Measured configurations. The shared bytes are those of `tensors`, not of the profile.
    pub profile: Profile,
    /// Latency objective.
    pub slo: Slo,
    /// Tensors of the model, by the ids of the inventory.
    pub tensors: ModelTensors,
    /// Name of their store on the node.
    pub store: String,
    /// Allowed configurations, as indices in the profile; empty for all.
    pub allowed: Vec<usize>,
    /// Cost of CPU (alpha), in bytes per millicore, from 0 to [`MAX_ALPHA`](crate::MAX_ALPHA).
    pub alpha_bytes_per_millicore: u64,
}

/// A function and its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionView {
    /// Constant properties of the function.
    pub model: Arc<FunctionModel>,
    /// Current load; `None` if unknown. Then nothing is released, and only the minimum is started.
    pub load: Option<Rate>,
    /// Largest load of a whole window, from [`LoadPeak::at`](crate::LoadPeak::at); `None` before a
    /// window is complete. Then nothing is released.
    pub peak: Option<Rate>,
    /// Minimum number of instances, limited by `max_instances`.
    pub min_instances: u32,
    /// Maximum number of instances, including those that are being replaced.
    pub max_instances: u32,
    /// Headroom of scaling out and in. The larger of its `min_instances` and the field above
    /// counts.
    pub scale_in: ScaleInPolicy,
    /// True if instances may be replaced now to save memory. The caller sets this after a steady
    /// period, and backs off after each use.
    pub consolidate: bool,
}

/// Phase of an instance's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not ready yet. It counts as capacity, so that nothing starts twice.
    Starting,
    /// Ready to serve.
    Ready,
    /// Not ready, and not expected to be soon: it crashes, or its node is lost. Others are started in
    /// its place, for at most once the load: what fails beyond that counts as starting.
    Failing,
    /// Being deleted, or surplus of its Deployment after a release. It takes room, and counts for
    /// nothing else. The caller derives this from the requested replicas, not from memory: of n
    /// pods with r requested replicas, these are the n - r pods that the Deployment's controller
    /// would delete first.
    Leaving,
}

/// An instance, or a requested one without a pod. The caller must also list the replicas of a
/// Deployment that have no pod yet, as starting and without a node, or they would be requested
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// Unique name. Among equal instances, the first by name is released.
    pub name: String,
    /// Index of its function.
    pub function: usize,
    /// Index of its configuration in the profile. `None` for an outdated one: it does not count,
    /// and stops once others carry the load. [`NodeView::free`] must not include its resources.
    pub configuration: Option<usize>,
    /// Index of its node; `None` before it is scheduled.
    pub node: Option<usize>,
    /// Index of its GPU on that node; `None` if it has none, or if it is unknown. An instance with a
    /// GPU that is unknown counts on the one that [`best_gpu`](crate::best_gpu) would choose.
    pub gpu: Option<usize>,
    /// Phase of its life.
    pub phase: Phase,
    /// Load that it served recently; `None` if unknown.
    pub load: Option<Rate>,
    /// True if the last decision listed it under
    /// [`FunctionDecision::retiring`](super::FunctionDecision). The caller stores this with the
    /// instance, as an annotation of the pod, so that it outlives the caller. It may drop the mark
    /// if replacements do not become ready; then the replacements are released.
    pub retiring: bool,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Name of the node in the inventory. A node missing there has no tensors.
    pub name: String,
    /// Resources of the node.
    pub all: Resources,
    /// Resources free for these functions, as if none of their instances ran. Tensors in the
    /// inventory are already subtracted.
    pub free: Resources,
    /// Room for further tensors, in bytes. `None` if they come out of `free.memory_bytes`.
    pub tensor_bytes: Option<u64>,
    /// Room of single stores by name, in bytes. It is a part of `tensor_bytes`; a store that is missing
    /// here may take all of that.
    pub stores: BTreeMap<String, u64>,
    /// GPUs of the node with its GPU mirror.
    pub gpus: Vec<GpuView>,
    /// True if only instances with a GPU may start there: others would keep them from it.
    pub gpus_only: bool,
    /// True if new instances may start there; false for a node that is cordoned or not ready.
    pub accepts_new: bool,
}

/// Input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Functions with their loads.
    pub functions: &'a [FunctionView],
    /// Their instances, in any order. Those of unknown functions are ignored.
    pub instances: &'a [InstanceView],
    /// Nodes, in any order.
    pub nodes: &'a [NodeView],
    /// Tensors of the nodes.
    pub inventory: &'a Inventory,
}
