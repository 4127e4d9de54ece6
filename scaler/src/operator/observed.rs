//! All that one pass looks at.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{Inventory, Rate};

use super::prepare::{Prepared, Unprepared};
use super::records::{DeploymentRecord, FunctionRecord, NodeRecord, PodRecord};
use crate::load::LoadError;
use crate::nodes::Room;
use crate::state::Key;

/// Records by namespace and name.
pub type Records<V> = Arc<BTreeMap<Key, Arc<V>>>;

/// All that one pass looks at.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// The functions, by namespace and name.
    pub functions: Vec<FunctionInput>,
    /// Deployments with the labels of functions.
    pub deployments: Records<DeploymentRecord>,
    /// All pods.
    pub pods: Records<PodRecord>,
    /// All nodes.
    pub nodes: Records<NodeRecord>,
    /// Which tensors they have.
    pub inventory: Arc<Inventory>,
    /// Their room for more.
    pub rooms: BTreeMap<String, Room>,
}

/// A function, and what is known of it beside its resource.
#[derive(Debug, Clone)]
pub struct FunctionInput {
    /// Its resource.
    pub record: Arc<FunctionRecord>,
    /// The same with its profile.
    pub prepared: Result<Arc<Prepared>, Unprepared>,
    /// Its load now.
    pub load: Result<Rate, LoadError>,
    /// The loads of its instances, by pod.
    pub pod_loads: Arc<BTreeMap<String, Rate>>,
    /// The largest load of a whole window.
    pub peak: Option<Rate>,
    /// Whether instances may be replaced to save memory.
    pub consolidate: bool,
    /// Whether replacing has taken too long, and is given up.
    pub give_up_retiring: bool,
    /// Whether its status may be written only because numbers in it changed.
    pub refresh_status: bool,
}
