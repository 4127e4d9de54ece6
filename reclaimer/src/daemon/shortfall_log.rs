//! The log of limits that are not met: an event when one begins to be missed, when the reason
//! changes, and when it is met again, not at each pass.

use std::collections::BTreeMap;

use crate::report::{Blocker, ShortfallStatus};

/// Names of stores with commas, and the goal.
type Key = (String, &'static str);

/// Limits missed at the last pass.
#[derive(Debug, Default)]
pub(super) struct ShortfallLog(BTreeMap<Key, Blocker>);

/// A change since the last pass.
#[derive(Debug, PartialEq, Eq)]
enum Change<'a> {
    Missed(String, &'a ShortfallStatus),
    Met(Key),
}

impl ShortfallLog {
    /// Logs the changes since the last pass.
    pub(super) fn follow(&mut self, shortfalls: &[ShortfallStatus]) {
        for change in self.changes(shortfalls) {
            match change {
                Change::Missed(stores, missed) => tracing::warn!(
                    stores,
                    goal = missed.goal,
                    missing_bytes = missed.missing_bytes,
                    reason = missed.reason.name(),
                    held_bytes = missed.held_bytes,
                    protected_bytes = missed.protected_bytes,
                    young_bytes = missed.young_bytes,
                    guaranteed_bytes = missed.guaranteed_bytes,
                    remedy = missed.remedy,
                    "a limit is not met"
                ),
                Change::Met((stores, goal)) => {
                    tracing::info!(stores, goal, "the limit is met again");
                }
            }
        }
    }

    fn changes<'a>(&mut self, shortfalls: &'a [ShortfallStatus]) -> Vec<Change<'a>> {
        // Each load that waits for room gets its own answer, which is logged.
        let limits = shortfalls.iter().filter(|missed| missed.goal != "requests");
        let mut now = BTreeMap::new();
        let mut changes = Vec::new();
        for missed in limits {
            let key = (missed.stores.join(","), missed.goal);
            if self.0.get(&key) != Some(&missed.reason) {
                changes.push(Change::Missed(key.0.clone(), missed));
            }
            now.insert(key, missed.reason);
        }
        let before = std::mem::replace(&mut self.0, now);
        let met = before.into_keys().filter(|key| !self.0.contains_key(key));
        changes.extend(met.map(Change::Met));
        changes
    }
}

#[cfg(test)]
mod tests {
    use tetris_reclaimer_core::{Goal, KeptBytes};

    use super::*;

    fn missed(goal: Goal, held_bytes: u64, young_bytes: u64) -> ShortfallStatus {
        let kept = KeptBytes {
            held_bytes,
            young_bytes,
            ..KeptBytes::default()
        };
        ShortfallStatus::new(vec!["a".to_owned(), "b".to_owned()], goal, 7, &kept)
    }

    #[test]
    fn only_changes_are_told() {
        let mut log = ShortfallLog::default();
        assert_eq!(log.changes(&[]), []);
        let shortfalls = [missed(Goal::Limit, 5, 1)];
        let told = [Change::Missed("a,b".to_owned(), &shortfalls[0])];
        assert_eq!(log.changes(&shortfalls), told);
        assert_eq!(log.changes(&shortfalls), []);
        // More bytes of the same reason are no change.
        assert_eq!(log.changes(&[missed(Goal::Limit, 9, 1)]), []);
        let young = [missed(Goal::Limit, 1, 5)];
        let told = [Change::Missed("a,b".to_owned(), &young[0])];
        assert_eq!(log.changes(&young), told);
        let met = [Change::Met(("a,b".to_owned(), "limit"))];
        assert_eq!(log.changes(&[]), met);
        assert_eq!(log.changes(&[]), []);
    }

    #[test]
    fn a_load_that_waits_is_told_by_its_answer_alone() {
        let mut log = ShortfallLog::default();
        assert_eq!(log.changes(&[missed(Goal::Requests, 5, 1)]), []);
    }
}
