//! What is observed: functions, their instances, and nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::inventory::{Inventory, ModelTensors};
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::scale_in::ScaleInPolicy;
use crate::score::Resources;

/// What does not change from one decision to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// For messages.
    pub name: String,
    /// What was measured. The bytes that instances share are those of `tensors`, whatever the profile says.
    pub profile: Profile,
    /// The objective.
    pub slo: Slo,
    /// Its tensors, by the ids that the inventory uses.
    pub tensors: ModelTensors,
    /// Configurations that may be used, as indices into the profile; empty for all.
    pub allowed: Vec<usize>,
    /// alpha, in bytes per millicore, from 0 to [`MAX_ALPHA`](crate::MAX_ALPHA).
    pub alpha_bytes_per_millicore: u64,
}

/// A function and its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionView {
    /// How it may run.
    pub model: Arc<Model>,
    /// Requests for it now; `None` if that is not known. Then nothing goes, and nothing but the minimum is
    /// started.
    pub load: Option<Rate>,
    /// The largest load of a whole window, from [`LoadPeak::at`](crate::LoadPeak::at); `None` before there is
    /// one. Then nothing goes.
    pub peak: Option<Rate>,
    /// So many instances run whatever the load; no more than `max_instances` are.
    pub min_instances: u32,
    /// More than this never run, those that are replaced included.
    pub max_instances: u32,
    /// Headroom of scaling out and in. Of its `min_instances` and that above, the larger counts.
    pub scale_in: ScaleInPolicy,
    /// Whether instances may be replaced now to save memory. The caller sets this after a steady period, and
    /// backs off after each use.
    pub consolidate: bool,
}

/// Where an instance is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It is not ready yet. It counts as capacity, so that nothing is started twice.
    Starting,
    /// It serves.
    Ready,
    /// It goes: it is being ended, or it is one of those that its Deployment has too many, which are those that a
    /// decision released. It takes room, and counts for nothing else. That is to be told from what the
    /// Deployment asks for now, and not remembered: of n pods where r are asked for, the n - r that the
    /// Deployment's controller would end first.
    Leaving,
}

/// An instance, or one that is asked for and not there yet: what a Deployment's replicas exceed its pods by is
/// to be listed as well, starting and without a node, or it would be asked for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceView {
    /// Different for each. Breaks ties: of equals, the first by name goes.
    pub name: String,
    /// Index of its function.
    pub function: usize,
    /// Index of its configuration in the profile. `None` for one that is not in the profile any more: it is
    /// not counted on, and goes when others carry the load. What such a one takes is not to be counted in
    /// [`NodeView::free`].
    pub configuration: Option<usize>,
    /// Index of its node; `None` before it has one.
    pub node: Option<usize>,
    /// Where it is in its life.
    pub phase: Phase,
    /// Requests that it served of late; `None` if that is not known.
    pub load: Option<Rate>,
    /// Whether the last decision listed it under [`FunctionDecision::retiring`](super::FunctionDecision). The
    /// caller keeps this with the instance (an annotation of the pod), so that it outlives the caller. It may
    /// drop it when replacements do not become ready: these go then.
    pub retiring: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// As in the inventory. A node that is not in there has no tensors.
    pub name: String,
    /// What it has.
    pub all: Resources,
    /// What of it is free for these functions: as if none of their instances ran, but with the tensors
    /// that the inventory shows. Those are not to be counted as free.
    pub free: Resources,
    /// Room for tensors that are not there yet, in bytes. `None` if they come out of `free.memory_bytes`.
    pub tensor_bytes: Option<u64>,
    /// Whether new instances may be put there: not if it is cordoned or not ready.
    pub accepts_new: bool,
}

/// All that a decision is made of.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The functions.
    pub functions: &'a [FunctionView],
    /// Their instances, in any order. Those of unknown functions are ignored.
    pub instances: &'a [InstanceView],
    /// The nodes, in any order.
    pub nodes: &'a [NodeView],
    /// Which tensors the nodes have.
    pub inventory: &'a Inventory,
}
