//! Packs: several small tensors in one object (LAYOUT.md 7).
//!
//! A mapping per tensor would break on models of 1e5 tensors (`vm.max_map_count`) and waste half a
//! page on each bias. Where a pack ends is decided by the tensors' contents, so that a changed
//! tensor changes its own pack and at most the next.

use crate::digest::TensorId;

/// Tensors shorter than this go into packs, in bytes, unless a model has so many that the threshold
/// must rise.
pub const SMALL_TENSOR: u64 = 64 << 10;
/// Tensors in a pack start at multiples of this, in bytes: a cache line, enough for every vector
/// instruction.
pub const PACK_ALIGN: u64 = 64;

/// Mean length of a pack, in thresholds.
const MEAN: u64 = 16;
/// Greatest length of a pack, in thresholds. A pack grows so long by chance once in e^8.
const LIMIT: u64 = 128;

/// A small tensor, as far as packing is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackItem {
    /// Identity of its bytes.
    pub id: TensorId,
    /// Its length in bytes, not 0.
    pub len: u64,
}

/// One pack: which items it holds, and where.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackPlan {
    /// Index of an item and its offset in the pack, ascending.
    pub items: Vec<(usize, u64)>,
    /// Length of the pack in bytes.
    pub len: u64,
}

/// The threshold T for tensors of these lengths (bytes, any order) such that large tensors and packs
/// together stay within `max_objects`.
///
/// The number of packs is estimated at twice its expectation, so that [`plan_packs`] hardly ever
/// makes more; the caller doubles the threshold when it does.
pub fn small_tensor_threshold(lengths: &[u64], max_objects: usize) -> u64 {
    let mut threshold = SMALL_TENSOR;
    loop {
        let large = lengths.iter().filter(|&&len| len >= threshold).count() as u64;
        let small = lengths.iter().filter(|&&len| len < threshold);
        let bytes = small.fold(0u64, |sum, &len| sum.saturating_add(len));
        let packs = (bytes / (MEAN * threshold)).saturating_mul(2) + 16;
        if large + packs <= max_objects as u64 || threshold > u64::MAX / (2 * LIMIT) {
            return threshold;
        }
        threshold *= 2;
    }
}

/// Distributes `items`, in file order, over packs for the threshold `threshold` (bytes).
pub fn plan_packs(items: &[PackItem], threshold: u64) -> Vec<PackPlan> {
    let mut packs = Vec::new();
    let mut open = PackPlan::default();
    for (index, item) in items.iter().enumerate() {
        let mut offset = open.len.next_multiple_of(PACK_ALIGN);
        if offset + item.len > LIMIT * threshold && !open.items.is_empty() {
            packs.push(std::mem::take(&mut open));
            offset = 0;
        }
        open.items.push((index, offset));
        open.len = offset + item.len;
        if cuts_after(item, threshold) {
            packs.push(std::mem::take(&mut open));
        }
    }
    if !open.items.is_empty() {
        packs.push(open);
    }
    packs
}

/// A coin that shows "cut" with probability `len / (16 threshold)`, tossed by the tensor's content.
fn cuts_after(item: &PackItem, threshold: u64) -> bool {
    let coin = u128::from(item.id.0.prefix_u64());
    coin * u128::from(MEAN * threshold) < u128::from(item.len) << 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::MAX_OBJECTS;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn item(seed: u64, len: u64) -> PackItem {
        PackItem {
            id: TensorId::of(&seed.to_le_bytes()),
            len,
        }
    }

    /// The contents and places that a pack's bytes depend on.
    fn fingerprints(items: &[PackItem], packs: &[PackPlan]) -> Vec<Vec<(TensorId, u64)>> {
        let fingerprint = |pack: &PackPlan| {
            pack.items
                .iter()
                .map(|&(i, at)| (items[i].id, at))
                .collect()
        };
        packs.iter().map(fingerprint).collect()
    }

    fn new_packs(before: &[PackItem], after: &[PackItem]) -> usize {
        let old = fingerprints(before, &plan_packs(before, SMALL_TENSOR));
        let old: HashSet<_> = old.into_iter().collect();
        let new = fingerprints(after, &plan_packs(after, SMALL_TENSOR));
        new.into_iter().filter(|pack| !old.contains(pack)).count()
    }

    fn items() -> impl Strategy<Value = Vec<PackItem>> {
        prop::collection::vec((any::<u64>(), 1..SMALL_TENSOR), 1..600).prop_map(|list| {
            list.into_iter()
                .map(|(seed, len)| item(seed, len))
                .collect()
        })
    }

    proptest! {
        #[test]
        fn every_item_is_in_one_pack_aligned_and_in_order(items in items()) {
            let packs = plan_packs(&items, SMALL_TENSOR);
            let order: Vec<_> = packs.iter().flat_map(|p| p.items.iter().map(|i| i.0)).collect();
            prop_assert_eq!(order, (0..items.len()).collect::<Vec<_>>());
            for pack in &packs {
                let mut free = 0;
                for &(index, offset) in &pack.items {
                    prop_assert!(offset >= free && offset % PACK_ALIGN == 0);
                    prop_assert!(offset - free < PACK_ALIGN);
                    free = offset + items[index].len;
                }
                prop_assert_eq!(pack.len, free);
                prop_assert!(pack.len <= LIMIT * SMALL_TENSOR);
            }
        }

        // A run of 128 T without a cut (once in e^8 packs) may shift cuts up to the next one, hence
        // the third pack; without such a run it is two.
        #[test]
        fn a_changed_tensor_changes_at_most_two_packs(
            items in items(), at in any::<prop::sample::Index>(), seed in any::<u64>(),
        ) {
            let at = at.index(items.len());
            let mut changed = items.clone();
            changed[at] = item(seed, items[at].len);
            prop_assert!(new_packs(&items, &changed) <= 3);
        }

        #[test]
        fn an_added_or_removed_tensor_changes_at_most_two_packs(
            items in items(), at in any::<prop::sample::Index>(), seed in any::<u64>(),
            len in 1..SMALL_TENSOR,
        ) {
            let at = at.index(items.len());
            let mut longer = items.clone();
            longer.insert(at, item(seed, len));
            prop_assert!(new_packs(&items, &longer) <= 3);
            prop_assert!(new_packs(&longer, &items) <= 3);
        }
    }

    #[test]
    fn packs_have_the_mean_length_that_the_layout_promises() {
        let items: Vec<_> = (0..20_000).map(|seed| item(seed, 10_000)).collect();
        let packs = plan_packs(&items, SMALL_TENSOR);
        let mean = 200_000_000 / packs.len() as u64;
        assert!(
            (12 * SMALL_TENSOR..20 * SMALL_TENSOR).contains(&mean),
            "{mean}"
        );
    }

    #[test]
    fn a_hundred_thousand_tensors_stay_within_the_limit_of_mappings() {
        // 58 layers x 256 experts x 3 matrices of 14.7 MB with their scales, as in DeepSeek-V3.
        let count = 58 * 256 * 3;
        let lengths: Vec<u64> = (0..count).flat_map(|_| [14_680_064, 14_336]).collect();
        let threshold = small_tensor_threshold(&lengths, MAX_OBJECTS);
        let small: Vec<_> = (0..)
            .zip(&lengths)
            .filter(|(_, len)| **len < threshold)
            .collect();
        let large = lengths.len() - small.len();
        let items: Vec<_> = small.iter().map(|&(seed, &len)| item(seed, len)).collect();
        let packs = plan_packs(&items, threshold).len();
        assert!(large + packs <= MAX_OBJECTS, "{large} large, {packs} packs");
    }

    #[test]
    fn few_tensors_keep_the_base_threshold() {
        assert_eq!(
            small_tensor_threshold(&[1 << 30; 400], MAX_OBJECTS),
            SMALL_TENSOR
        );
        assert_eq!(small_tensor_threshold(&[], MAX_OBJECTS), SMALL_TENSOR);
    }

    #[test]
    fn identical_tensors_that_never_cut_still_end_a_pack() {
        let mut seeds = (0..1_000).map(|seed| item(seed, 1));
        let never = seeds.find(|item| !cuts_after(item, SMALL_TENSOR));
        let items = vec![
            PackItem {
                len: 60_000,
                ..never.unwrap()
            };
            1_000
        ];
        let longest = plan_packs(&items, SMALL_TENSOR).iter().map(|p| p.len).max();
        assert!(longest.unwrap() <= LIMIT * SMALL_TENSOR);
    }
}
