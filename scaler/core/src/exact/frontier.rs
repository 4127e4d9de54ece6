//! Pareto frontier of partial solutions.

use std::collections::BTreeMap;

/// Pairs of a phase and a deficit, none of which is at most another in both: deficits descend as
/// phases ascend.
#[derive(Debug, Default)]
pub(super) struct Frontier(BTreeMap<u128, u128>);

impl Frontier {
    /// Returns true if some pair has at most this phase and at most this deficit.
    pub(super) fn dominates(&self, phase: u128, deficit: u128) -> bool {
        let last = self.0.range(..=phase).next_back();
        last.is_some_and(|(_, &other)| other <= deficit)
    }

    /// Adds a pair that is not dominated, and removes those that it dominates.
    pub(super) fn insert(&mut self, phase: u128, deficit: u128) {
        while let Some((&other, &other_deficit)) = self.0.range(phase..).next() {
            if other_deficit < deficit {
                break;
            }
            self.0.remove(&other);
        }
        self.0.insert(phase, deficit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_answers_as_a_list_of_all_pairs(pairs in proptest::collection::vec((0..20_u128, 0..20_u128), 0..60)) {
            let mut frontier = Frontier::default();
            let mut seen: Vec<(u128, u128)> = Vec::new();
            for (phase, deficit) in pairs {
                let dominated = seen.iter().any(|&(other, less)| other <= phase && less <= deficit);
                prop_assert_eq!(frontier.dominates(phase, deficit), dominated);
                if !dominated {
                    frontier.insert(phase, deficit);
                }
                seen.push((phase, deficit));
                let deficits: Vec<u128> = frontier.0.values().copied().collect();
                prop_assert!(deficits.is_sorted_by(|a, b| a > b));
            }
        }
    }
}
