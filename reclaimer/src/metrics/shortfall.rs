//! Goals that were missed, by the stores that they are about.

use std::collections::BTreeMap;

use crate::report::{NodeStatus, ShortfallStatus};

/// Reasons that keep bytes in the store, in the order of [`Blocked`].
pub(super) const BLOCKERS: [&str; 4] = ["held", "protected", "young", "guaranteed"];
/// Goals that are about one store.
const OF_STORE: [&str; 2] = ["requests", "limit"];
/// Goals that are about a mount.
const OF_MOUNT: [&str; 3] = ["requests", "low-watermark", "guarantees"];

/// Missing bytes, and those that stay, in the order of [`BLOCKERS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Blocked {
    pub missing: u64,
    pub by: [u64; 4],
}

/// One label value for stores: their names, in order, with commas between.
pub(super) fn joined(stores: &[String]) -> String {
    let mut names: Vec<&str> = stores.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.join(",")
}

/// By stores and goal. Every goal that a store or mount can miss is there, with 0 when it was not
/// missed.
pub(super) fn by_goal(status: &NodeStatus) -> BTreeMap<(String, &'static str), Blocked> {
    let mut all = BTreeMap::new();
    for store in &status.stores {
        for goal in OF_STORE {
            all.insert((store.name.clone(), goal), Blocked::default());
        }
    }
    for mount in &status.mounts {
        for goal in OF_MOUNT {
            all.insert((joined(&mount.stores), goal), Blocked::default());
        }
    }
    for shortfall in &status.shortfalls {
        let obstacle = blocked(shortfall);
        let known = all
            .entry((joined(&shortfall.stores), shortfall.goal))
            .or_default();
        // A mount with one store has the same name as its store. Both speak of the same bytes, so
        // the larger counts.
        if obstacle.missing > known.missing {
            *known = obstacle;
        }
    }
    all
}

fn blocked(shortfall: &ShortfallStatus) -> Blocked {
    Blocked {
        missing: shortfall.missing_bytes,
        by: [
            shortfall.held_bytes,
            shortfall.protected_bytes,
            shortfall.young_bytes,
            shortfall.guaranteed_bytes,
        ],
    }
}
