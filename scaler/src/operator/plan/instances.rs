//! Marks of instances.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::Phase;

use super::{Action, Scene};

/// Deletion cost of released instances; others have no cost, which means zero.
const RELEASED: i32 = -100;

impl Scene<'_> {
    /// Returns the marks to change. Costs change only for pods of Deployments with releases, as
    /// every change is a write.
    pub(super) fn marks(&self) -> Vec<Action> {
        let release: BTreeSet<usize> = self.decision.release.iter().copied().collect();
        let retiring: BTreeSet<usize> = self.decision.retiring.iter().copied().collect();
        let sources = &self.assembled.sources;
        let shrinking: BTreeSet<&str> = (release.iter())
            .filter_map(|index| sources.get(*index))
            .map(|source| source.configuration.as_str())
            .collect();
        let mut marks = Vec::new();
        for &index in &self.decision.ranking {
            let (Some(source), Some(one)) =
                (sources.get(index), self.assembled.instances.get(index))
            else {
                continue;
            };
            let Some(pod) = source.pod.clone().filter(|_| one.phase != Phase::Leaving) else {
                continue;
            };
            let is_retiring = retiring.contains(&index);
            let cost = if release.contains(&index) {
                RELEASED
            } else {
                0
            };
            let shrinks = shrinking.contains(source.configuration.as_str());
            let (retiring, cost) = (
                (is_retiring != source.is_retiring).then_some(is_retiring),
                (shrinks && cost != source.cost).then_some(cost),
            );
            if retiring.is_some() || cost.is_some() {
                marks.push(Action::Mark {
                    pod,
                    retiring,
                    cost,
                });
            }
        }
        marks
    }

    /// Returns the number of ready instances, by configuration.
    pub(super) fn ready(&self) -> BTreeMap<String, u32> {
        let mut ready = BTreeMap::new();
        for &index in &self.decision.ranking {
            let (Some(source), Some(one)) = (
                self.assembled.sources.get(index),
                self.assembled.instances.get(index),
            ) else {
                continue;
            };
            if one.phase == Phase::Ready {
                *ready.entry(source.configuration.clone()).or_default() += 1;
            }
        }
        ready
    }
}
