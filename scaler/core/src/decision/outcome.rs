//! Outcome of a decision.

use std::fmt;

use serde::Serialize;

use crate::placement::Shortage;
use crate::rate::Rate;
use crate::selection::SloTooTight;

/// The reason for a function's decision. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum FunctionOutcome {
    /// The running instances carry the load, and none is known to be superfluous.
    Steady,
    /// Instances start.
    ScaledOut {
        /// Number of instances.
        started: u32,
    },
    /// Instances are released.
    ScaledIn {
        /// Number of instances.
        released: u32,
    },
    /// Instances are being replaced by cheaper ones.
    Consolidating {
        /// Number of replacements that are not ready.
        starting: u32,
        /// Number of instances that stop then.
        retiring: u32,
    },
    /// Instances with an outdated configuration stop once others carry the load.
    Renewing {
        /// Number of outdated instances.
        outdated: u32,
    },
    /// The load is unknown: only the minimum is started, and nothing else changes.
    LoadUnknown {
        /// Number of instances that start for the minimum.
        started: u32,
    },
    /// The load needs more instances than the maximum.
    AtMaximum {
        /// The maximum.
        max_instances: u32,
        /// Part of the load with its headroom that the instances do not carry.
        uncovered: Rate,
    },
    /// Outdated instances stop before their replacements start, as the maximum allows no more.
    MakingRoom {
        /// Number of instances that stop.
        released: u32,
    },
    /// No allowed configuration is in the profile.
    NoConfiguration,
    /// No allowed configuration is fast enough.
    SloTooTight(SloTooTight),
    /// No node has room for one instance, even when idle. Instances are still requested, so that a
    /// cluster autoscaler sees them.
    NoNodeLargeEnough {
        /// Node with the smallest shortage; empty if there are no nodes.
        node: String,
        /// Its shortage.
        missing: Shortage,
        /// Number of requested instances.
        started: u32,
    },
    /// Nodes are large enough, but have no room for all instances. Instances are still requested.
    OutOfRoom {
        /// Node with the smallest shortage.
        node: String,
        /// Its shortage for one more instance.
        missing: Shortage,
        /// Number of requested instances.
        started: u32,
    },
    /// The input contradicts itself; instances are selected for this function alone.
    Unplanned {
        /// The contradiction.
        error: String,
        /// Number of instances that start.
        started: u32,
    },
}

impl fmt::Display for FunctionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady => write!(f, "the running instances carry the load"),
            Self::ScaledOut { started } => {
                write!(
                    f,
                    "the load with its headroom exceeds the capacity: {started} more instances are started"
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
                "{retiring} instances stop to save memory once {starting} replacements are ready"
            ),
            Self::Renewing { outdated } => write!(
                f,
                "{outdated} instances have an outdated configuration, and stop once other ready instances carry the load"
            ),
            Self::LoadUnknown { started } => write!(
                f,
                "the load is unknown: {started} instances are started for the minimum, nothing else changes"
            ),
            Self::AtMaximum {
                max_instances,
                uncovered,
            } if uncovered.is_zero() => write!(
                f,
                "{max_instances} instances are the maximum: those with the highest throughput are started"
            ),
            Self::AtMaximum {
                max_instances,
                uncovered,
            } => write!(
                f,
                "{max_instances} instances are the maximum; {uncovered} of the load with its headroom are not carried; raise maxInstances"
            ),
            Self::MakingRoom { released } => write!(
                f,
                "{released} outdated instances stop, as the maximum leaves no room beside them"
            ),
            Self::NoConfiguration => {
                write!(f, "none of the allowed configurations is in the profile")
            }
            Self::SloTooTight(reason) => reason.fmt(f),
            Self::NoNodeLargeEnough { node, missing, .. } if node.is_empty() => {
                write!(f, "no node takes instances: {missing} are missing")
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
                "no room for all of {started} instances; node {node} comes closest, and {missing} are missing for one more"
            ),
            Self::Unplanned { error, started } => write!(
                f,
                "{error}; {started} instances are started regardless of other functions"
            ),
        }
    }
}
