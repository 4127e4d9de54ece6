//! Why a decision is as it is.

use std::fmt;

use serde::Serialize;

use crate::placement::Shortage;
use crate::rate::Rate;
use crate::selection::SloTooTight;

/// Why a function's decision is as it is. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum Outcome {
    /// What runs carries the load, and none of it is superfluous for sure.
    Steady,
    /// Instances are started.
    ScaledOut {
        /// How many.
        started: u32,
    },
    /// Instances go.
    ScaledIn {
        /// How many.
        released: u32,
    },
    /// Instances are being replaced by ones that take less memory all together.
    Consolidating {
        /// How many replacements are not ready yet.
        starting: u32,
        /// How many go then.
        retiring: u32,
    },
    /// Instances whose configuration is not to be used any more go when others carry the load.
    Renewing {
        /// How many go then.
        outdated: u32,
    },
    /// The load is not known: nothing changes, but for the minimum.
    LoadUnknown {
        /// How many are started for the minimum.
        started: u32,
    },
    /// More would be needed than the maximum allows.
    AtMaximum {
        /// The maximum.
        max_instances: u32,
        /// What of the load with its headroom nothing carries.
        uncovered: Rate,
    },
    /// Instances that are out of date end before others can take their place, as there may be no more of them.
    MakingRoom {
        /// How many end.
        released: u32,
    },
    /// No configuration may be used: those that are allowed are not in the profile.
    NoConfiguration,
    /// No configuration that is allowed is fast enough.
    SloTooTight(SloTooTight),
    /// No node has room for one instance, even if it were idle. Instances are asked for all the same, for a cluster
    /// autoscaler to see.
    NoNodeLargeEnough {
        /// The node that lacks least; empty if there are no nodes.
        node: String,
        /// What it lacks.
        missing: Shortage,
        /// How many instances wait.
        started: u32,
    },
    /// Nodes are large enough, but not free enough for all. Instances are asked for all the same.
    OutOfRoom {
        /// The node that lacks least.
        node: String,
        /// What it lacks for one more instance.
        missing: Shortage,
        /// How many instances wait.
        started: u32,
    },
    /// What is given contradicts itself, as the text says: instances are chosen for this function alone.
    Unplanned {
        /// What is wrong.
        error: String,
        /// How many instances are started.
        started: u32,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady => write!(f, "what runs carries the load"),
            Self::ScaledOut { started } => {
                write!(
                    f,
                    "the load and its headroom exceed what runs: {started} more are started"
                )
            }
            Self::ScaledIn { released } => {
                write!(
                    f,
                    "the load of a whole window does not need {released} instances"
                )
            }
            Self::Consolidating { starting, retiring } => write!(
                f,
                "{retiring} instances go to save memory when {starting} that replace them are ready"
            ),
            Self::Renewing { outdated } => write!(
                f,
                "{outdated} instances have a configuration that is not to be used any more, and go when others are ready that carry the load"
            ),
            Self::LoadUnknown { started } => write!(
                f,
                "the load is not known: {started} are started for the minimum, nothing else changes"
            ),
            Self::AtMaximum {
                max_instances,
                uncovered,
            } if uncovered.is_zero() => write!(
                f,
                "{max_instances} instances are the maximum: those with most throughput are started"
            ),
            Self::AtMaximum {
                max_instances,
                uncovered,
            } => write!(
                f,
                "{max_instances} instances are the maximum; {uncovered} of the load and its headroom are not carried"
            ),
            Self::MakingRoom { released } => write!(
                f,
                "{released} instances that are out of date end, as the maximum leaves no room beside them"
            ),
            Self::NoConfiguration => write!(
                f,
                "none of the configurations that are allowed is in the profile"
            ),
            Self::SloTooTight(reason) => reason.fmt(f),
            Self::NoNodeLargeEnough { node, missing, .. } if node.is_empty() => {
                write!(
                    f,
                    "there is no node that takes instances: {missing} are missing"
                )
            }
            Self::NoNodeLargeEnough { node, missing, .. } => write!(
                f,
                "no node is large enough; node {node} comes closest, and lacks {missing}"
            ),
            Self::OutOfRoom {
                node,
                missing,
                started,
            } => write!(
                f,
                "no room for all of {started} instances; on node {node}, which comes closest, {missing} are missing for one more"
            ),
            Self::Unplanned { error, started } => write!(
                f,
                "{error}; {started} instances are started without regard to other functions"
            ),
        }
    }
}
