//! Partial solutions that no other makes superfluous.

use std::collections::BTreeMap;

/// Pairs of phase and adjusted cost, of which none has a phase as large as another's for as little: the
/// costs ascend with the phases.
#[derive(Debug, Default)]
pub(super) struct Frontier(BTreeMap<u128, u128>);

impl Frontier {
    /// Whether some pair has at least this phase for at most this cost.
    pub(super) fn dominates(&self, phase: u128, cost: u128) -> bool {
        let next = self.0.range(phase..).next();
        next.is_some_and(|(_, &other)| other <= cost)
    }

    /// Adds a pair that is not dominated, and drops those that it dominates.
    pub(super) fn insert(&mut self, phase: u128, cost: u128) {
        while let Some((&other, &other_cost)) = self.0.range(..=phase).next_back() {
            if other_cost < cost {
                break;
            }
            self.0.remove(&other);
        }
        self.0.insert(phase, cost);
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
            for (phase, cost) in pairs {
                let dominated = seen.iter().any(|&(other, less)| other >= phase && less <= cost);
                prop_assert_eq!(frontier.dominates(phase, cost), dominated);
                if !dominated {
                    frontier.insert(phase, cost);
                }
                seen.push((phase, cost));
                let costs: Vec<u128> = frontier.0.values().copied().collect();
                prop_assert!(costs.is_sorted_by(|a, b| a < b));
            }
        }
    }
}
