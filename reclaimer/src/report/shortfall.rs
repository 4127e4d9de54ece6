//! Goals that a pass could not reach, with the reason and the remedy.

use serde::Serialize;
use tetris_reclaimer_core::{Goal, KeptBytes};

/// A goal that could not be reached in the last pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShortfallStatus {
    /// The store whose limit is meant, or the stores of the mount.
    pub stores: Vec<String>,
    /// `requests`, `limit`, `low-watermark` or `guarantees`.
    pub goal: &'static str,
    /// By how much it is missed, in bytes.
    pub missing_bytes: u64,
    /// By how many inodes it is missed.
    pub missing_inodes: u64,
    /// Bytes of mapped objects that stay.
    pub held_bytes: u64,
    /// Because it is declared warm.
    pub protected_bytes: u64,
    /// Because it is within the keep-alive window.
    pub young_bytes: u64,
    /// Because it is within the store's guarantee.
    pub guaranteed_bytes: u64,
    /// The reason that keeps most of these bytes.
    pub reason: Blocker,
    /// The next step.
    pub remedy: String,
}

/// The reason that objects stay although their room is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocker {
    /// Processes map them.
    Held,
    /// Pods declare their models warm.
    Protected,
    /// They are younger than the keep-alive window.
    Young,
    /// They are within the guarantee of their store.
    Guaranteed,
    /// No object stays: records, or files that are not the store's, take the room.
    NoObjects,
}

impl Blocker {
    /// Its name in logs and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Protected => "protected",
            Self::Young => "young",
            Self::Guaranteed => "guaranteed",
            Self::NoObjects => "no-objects",
        }
    }

    /// The reason that keeps most bytes.
    fn main(kept: &KeptBytes) -> Self {
        let all = [
            (kept.held_bytes, Self::Held),
            (kept.protected_bytes, Self::Protected),
            (kept.young_bytes, Self::Young),
            (kept.guaranteed_bytes, Self::Guaranteed),
        ];
        let kept = all.into_iter().filter(|(bytes, _)| *bytes > 0);
        // Of equals, `max_by_key` finds the last: in reverse, the first.
        kept.rev()
            .max_by_key(|(bytes, _)| *bytes)
            .map_or(Self::NoObjects, |(_, reason)| reason)
    }

    fn remedy(self, larger: &str) -> String {
        match self {
            Self::Held => format!(
                "processes map the objects: end some of them (`tetris show` and `tetris ls` name models and holders), or {larger}"
            ),
            Self::Protected => format!(
                "pods declare the models warm: remove some of their annotations `tetris.dev/models`, or {larger}"
            ),
            Self::Young => {
                format!("the objects are younger than keep_alive_secs: wait, lower it, or {larger}")
            }
            Self::Guaranteed => {
                format!("stores are guaranteed their objects: lower guaranteed_bytes, or {larger}")
            }
            Self::NoObjects => format!(
                "records, or files that are not the store's, take the room: lower record_bytes, look at `foreign` in /status, or {larger}"
            ),
        }
    }
}

impl ShortfallStatus {
    /// A goal missed by `missing_bytes`, because of the bytes in `kept`.
    pub fn new(stores: Vec<String>, goal: Goal, missing_bytes: u64, kept: &KeptBytes) -> Self {
        let (goal, larger) = match goal {
            Goal::Requests => ("requests", "give the store a larger size or limit_bytes"),
            Goal::Limit => ("limit", "raise limit_bytes of the store's policy"),
            Goal::Guarantees => (
                "guarantees",
                "lower guaranteed_percent or guaranteed_namespaces, or enlarge the tmpfs",
            ),
            Goal::LowWatermark => (
                "low-watermark",
                "enlarge the tmpfs (mount.size_bytes, or `tetris init --size`), or raise the watermarks",
            ),
        };
        let reason = Blocker::main(kept);
        Self {
            stores,
            goal,
            missing_bytes,
            missing_inodes: 0,
            held_bytes: kept.held_bytes,
            protected_bytes: kept.protected_bytes,
            young_bytes: kept.young_bytes,
            guaranteed_bytes: kept.guaranteed_bytes,
            reason,
            remedy: reason.remedy(larger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missed(kept: &KeptBytes) -> ShortfallStatus {
        ShortfallStatus::new(vec!["a".to_owned()], Goal::Limit, 7, kept)
    }

    #[test]
    fn the_reason_is_the_one_that_keeps_most_and_the_remedy_belongs_to_it() {
        let kept = KeptBytes {
            held_bytes: 10,
            young_bytes: 11,
            ..KeptBytes::default()
        };
        let young = missed(&kept);
        assert_eq!(young.reason, Blocker::Young);
        assert!(young.remedy.contains("keep_alive_secs"), "{}", young.remedy);
        assert!(
            young.remedy.contains("raise limit_bytes"),
            "{}",
            young.remedy
        );
        let equal = missed(&KeptBytes {
            held_bytes: 11,
            ..kept
        });
        assert_eq!(equal.reason, Blocker::Held);
        assert_eq!(missed(&KeptBytes::default()).reason, Blocker::NoObjects);
    }
}
