//! Instances that do not serve, and are not expected to soon.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::records::{Instance, NodeRecord, PodRecord};
use crate::state::Key;

/// The reason an instance does not serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Its node is not ready, or gone.
    NodeLost,
    /// A container waits, for this reason of the kubelet.
    Waiting(&'static str),
    /// It has been unready on its node for longer than it may.
    NotReady,
}

impl Trouble {
    /// Returns the reason, in one word.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NodeLost => "NodeLost",
            Self::Waiting(reason) => reason,
            Self::NotReady => "NotReady",
        }
    }
}

/// Troubles by the name of the pod.
pub type Troubles = BTreeMap<String, Trouble>;

/// Instances of a function that fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failing {
    /// Those that do not count as capacity.
    pub replaced: Troubles,
    /// Those that still count: instances started in place of others fail as well.
    pub put_off: Troubles,
}

impl Failing {
    /// Returns the number of instances by reason.
    pub fn counts(&self) -> BTreeMap<&'static str, u32> {
        let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
        for trouble in self.replaced.values().chain(self.put_off.values()) {
            *counts.entry(trouble.reason()).or_default() += 1;
        }
        counts
    }

    /// Returns the most frequent reason, if an instance fails.
    pub fn reason(&self) -> Option<&'static str> {
        let counts = self.counts().into_iter();
        let most = counts.max_by_key(|(reason, count)| (*count, std::cmp::Reverse(*reason)));
        most.map(|(reason, _)| reason)
    }
}

/// Number of pods that a message names.
const NAMED: usize = 3;

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || self.replaced.iter().chain(&self.put_off);
        match all().count() {
            1 => write!(f, "1 instance does not serve: ")?,
            count => write!(f, "{count} instances do not serve: ")?,
        }
        for (number, (pod, trouble)) in all().take(NAMED).enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{pod} ({})", trouble.reason())?;
        }
        if all().count() > NAMED {
            write!(f, ", ...")?;
        }
        if !self.put_off.is_empty() {
            let count = self.put_off.len();
            write!(
                f,
                "; {count} of them are not replaced yet, as those started in place of others fail too"
            )?;
        }
        write!(f, "; see `kubectl describe pod`")
    }
}

/// Returns the troubles of instances by function, at `now_s` in seconds since the epoch. One that is
/// unready on its node for more than `after_s` seconds is in trouble.
pub fn troubles(
    pods: &BTreeMap<Key, Arc<PodRecord>>,
    nodes: &BTreeMap<Key, Arc<NodeRecord>>,
    now_s: i64,
    after_s: u64,
) -> BTreeMap<Key, Troubles> {
    let well: BTreeSet<&str> = (nodes.values())
        .filter(|node| !node.is_lost)
        .map(|node| node.name.as_str())
        .collect();
    let mut troubles: BTreeMap<Key, Troubles> = BTreeMap::new();
    for pod in pods.values() {
        let Some(one) = pod.instance.as_ref() else {
            continue;
        };
        if let Some(trouble) = trouble(pod, one, &well, now_s, after_s) {
            let function = Key::new(pod.key.namespace.clone(), one.function.clone());
            let of = troubles.entry(function).or_default();
            of.insert(pod.key.name.clone(), trouble);
        }
    }
    troubles
}

fn trouble(
    pod: &PodRecord,
    one: &Instance,
    well: &BTreeSet<&str>,
    now_s: i64,
    after_s: u64,
) -> Option<Trouble> {
    // One without a node waits for room, not for itself.
    if one.is_ready || one.is_leaving || pod.node.is_empty() {
        return None;
    }
    if !well.contains(pod.node.as_str()) {
        return Some(Trouble::NodeLost);
    }
    if let Some(reason) = one.waiting {
        return Some(Trouble::Waiting(reason));
    }
    let since = one.unready_since_s?;
    let after = i64::try_from(after_s).unwrap_or(i64::MAX);
    (now_s.saturating_sub(since) > after).then_some(Trouble::NotReady)
}
