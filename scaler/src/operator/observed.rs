//! Input of one pass.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{Inventory, Rate};

use super::health::Failing;
use super::prepare::{Prepared, Unprepared};
use super::profiling_state::ProfilingState;
use super::records::{DeploymentRecord, FunctionRecord, NodeRecord, PodRecord};
use crate::load::LoadError;
use crate::nodes::{NodeGpu, Room};
use crate::placement::PlacementMode;
use crate::state::Key;

/// Records by namespace and name.
pub type Records<V> = Arc<BTreeMap<Key, Arc<V>>>;

/// Input of one pass.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Functions, by namespace and name.
    pub functions: Vec<FunctionInput>,
    /// Deployments with the labels of functions.
    pub deployments: Records<DeploymentRecord>,
    /// All pods.
    pub pods: Records<PodRecord>,
    /// All nodes.
    pub nodes: Records<NodeRecord>,
    /// Tensors of the nodes.
    pub inventory: Arc<Inventory>,
    /// Room for more tensors, by node.
    pub rooms: BTreeMap<String, Arc<Room>>,
    /// GPUs of the nodes with a GPU mirror, by node.
    pub gpus: BTreeMap<String, Arc<[NodeGpu]>>,
    /// Way in which pods get to the nodes of the plan.
    pub mode: PlacementMode,
}

/// A function with its current observations.
#[derive(Debug, Clone)]
pub struct FunctionInput {
    /// Record of the resource.
    pub record: Arc<FunctionRecord>,
    /// The function with its profile.
    pub prepared: Result<Arc<Prepared>, Unprepared>,
    /// Current load.
    pub load: Result<Rate, LoadError>,
    /// Loads of its instances, by pod.
    pub pod_loads: Arc<BTreeMap<String, Rate>>,
    /// Largest load of a whole window.
    pub peak: Option<Rate>,
    /// True if a request waits or is served, so that one instance is needed whatever the load is.
    pub is_demanded: bool,
    /// True if instances may be replaced to save memory.
    pub consolidate: bool,
    /// True if a replacement has taken too long and is abandoned.
    pub give_up_retiring: bool,
    /// True if the status may be written only because its numbers changed.
    pub refresh_status: bool,
    /// Instances that fail.
    pub failing: Failing,
    /// Latency in service, in microseconds; `None` if no one asks for it.
    pub latency: Option<Result<u64, LoadError>>,
    /// State of its measurement by the operator; `None` if it names its profile.
    pub profiling: Option<ProfilingState>,
}
