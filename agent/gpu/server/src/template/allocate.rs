//! Division of a budget between the prefixes of several models.

use std::collections::BTreeSet;

use tetris_store_layout::ObjectId;

use crate::residency::Part;

/// A model that asks for a prefix.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// The model's objects in the order of their first use.
    pub parts: &'a [Part],
    /// Number of bytes that the prefix must have at least.
    pub bytes: u64,
}

/// Number of leading objects that each model keeps, with at most `budget_bytes` of distinct objects
/// in all.
///
/// The first demand is served first. A demand beyond the budget gets as many leading objects as
/// fit, because every byte of a prefix shortens the wait. Objects that an earlier prefix has cost
/// nothing: models that share a base share its prefix.
pub fn allocate(demands: &[Demand<'_>], budget_bytes: u64) -> Vec<usize> {
    let mut counted: BTreeSet<ObjectId> = BTreeSet::new();
    let mut left = budget_bytes;
    let mut keep = |demand: &Demand<'_>| {
        let (mut bytes, mut parts) = (0u64, 0);
        for part in demand.parts {
            if bytes >= demand.bytes {
                break;
            }
            if !counted.contains(&part.object) {
                let Some(rest) = left.checked_sub(part.len) else {
                    break;
                };
                left = rest;
                counted.insert(part.object);
            }
            bytes = bytes.saturating_add(part.len);
            parts += 1;
        }
        parts
    };
    demands.iter().map(&mut keep).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(number: u64) -> Part {
        Part {
            object: ObjectId::of(&number.to_le_bytes()),
            len: 1 + number * 7 % 100,
        }
    }

    fn bytes(parts: &[Part]) -> u64 {
        parts.iter().map(|part| part.len).sum()
    }

    #[test]
    fn models_of_one_base_share_its_prefix() {
        let base: Vec<_> = (0..10).map(part).collect();
        let demand = |parts| Demand { parts, bytes: 150 };
        let tuned: Vec<_> = base.iter().copied().chain([part(77)]).collect();
        let alone = allocate(&[demand(&base)], 10_000);
        let budget = bytes(&base[..alone[0]]);
        assert_eq!(
            allocate(&[demand(&base), demand(&tuned)], budget),
            [alone[0]; 2]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_budget_is_kept_and_used(
            models in prop::collection::vec((prop::collection::vec(0u64..30, 1..12), 0u64..600), 1..6),
            budget in 0u64..900,
        ) {
            let distinct = |numbers: &[u64]| {
                let mut seen = BTreeSet::new();
                let numbers = numbers.iter().filter(|number| seen.insert(**number));
                numbers.map(|number| part(*number)).collect::<Vec<_>>()
            };
            let models: Vec<_> = models.iter().map(|(parts, bytes)| (distinct(parts), *bytes)).collect();
            let demands: Vec<_> = models.iter().map(|(parts, bytes)| Demand { parts, bytes: *bytes }).collect();
            let kept = allocate(&demands, budget);
            let prefix = |at: usize| &models[at].0[..kept[at]];
            let objects: BTreeSet<_> = (0..kept.len()).flat_map(prefix).map(|part| (part.object, part.len)).collect();
            let used: u64 = objects.iter().map(|(_, len)| len).sum();
            prop_assert!(used <= budget);
            for (at, (parts, wanted)) in models.iter().enumerate() {
                let got = bytes(prefix(at));
                // No object more than asked for.
                prop_assert!(kept[at] == 0 || bytes(&parts[..kept[at] - 1]) < *wanted);
                if got < *wanted && kept[at] < parts.len() {
                    // What is missing did not fit beside the earlier prefixes and its own.
                    let earlier: BTreeSet<_> = (0..=at).flat_map(prefix).map(|part| (part.object, part.len)).collect();
                    let next = parts[kept[at]];
                    prop_assert!(!earlier.contains(&(next.object, next.len)));
                    let taken: u64 = earlier.iter().map(|(_, len)| len).sum();
                    prop_assert!(taken + next.len > budget);
                }
            }
        }
    }
}
