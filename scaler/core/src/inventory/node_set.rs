//! Set of the nodes that have an object.

/// A set of node numbers below 2^16: a sorted list, or bits once those are smaller.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSet {
    /// XOR of a scrambled number per node: different sets rarely have the same fingerprint.
    fingerprint: u64,
    len: u32,
    nodes: Nodes,
}

#[derive(Clone, Debug)]
enum Nodes {
    /// Sorted list, 2 bytes per node.
    Few(Vec<u16>),
    /// Bit set, one bit for each node of the cluster.
    Many(Vec<u64>),
}

impl Default for Nodes {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl NodeSet {
    pub(super) const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn contains(&self, node: u16) -> bool {
        match &self.nodes {
            Nodes::Few(list) => list.binary_search(&node).is_ok(),
            Nodes::Many(words) => {
                let word = words.get(usize::from(node / 64));
                word.is_some_and(|word| word >> (node % 64) & 1 == 1)
            }
        }
    }

    /// Adds a node that is not in the set, in a cluster of `cluster` nodes.
    pub(super) fn insert(&mut self, node: u16, cluster: usize) {
        match &mut self.nodes {
            Nodes::Few(list) => {
                let at = list.partition_point(|&other| other < node);
                list.insert(at, node);
            }
            Nodes::Many(words) => flip(words, node),
        }
        self.len = self.len.saturating_add(1);
        self.fingerprint ^= scrambled(node);
        // A list of n takes 2 n bytes, bits take cluster / 8.
        if self.len as usize > cluster / 16 {
            self.become_bits();
        }
    }

    /// Removes a node that is in the set.
    pub(super) fn remove(&mut self, node: u16, cluster: usize) {
        match &mut self.nodes {
            Nodes::Few(list) => {
                if let Ok(at) = list.binary_search(&node) {
                    list.remove(at);
                }
            }
            Nodes::Many(words) => flip(words, node),
        }
        self.len = self.len.saturating_sub(1);
        self.fingerprint ^= scrambled(node);
        // The threshold is half of that for bits, so that a node that comes and goes does not
        // convert the set each time.
        if (self.len as usize) < cluster / 32 || self.len == 0 {
            self.become_list();
        }
    }

    fn become_bits(&mut self) {
        if let Nodes::Few(list) = &self.nodes {
            let mut words = Vec::new();
            for &node in list {
                flip(&mut words, node);
            }
            self.nodes = Nodes::Many(words);
        }
    }

    fn become_list(&mut self) {
        if let Nodes::Many(words) = &self.nodes {
            self.nodes = Nodes::Few(ones(words).collect());
        }
    }

    /// Returns the bits, or `None` for a list.
    pub(super) fn words(&self) -> Option<&[u64]> {
        match &self.nodes {
            Nodes::Few(_) => None,
            Nodes::Many(words) => Some(words),
        }
    }

    /// Returns the list, or `None` for bits.
    pub(super) fn list(&self) -> Option<&[u16]> {
        match &self.nodes {
            Nodes::Few(list) => Some(list),
            Nodes::Many(_) => None,
        }
    }

    /// Returns true if both sets have the same nodes.
    pub(super) fn same(&self, other: &Self) -> bool {
        if self.fingerprint != other.fingerprint || self.len != other.len {
            return false;
        }
        match (&self.nodes, &other.nodes) {
            (Nodes::Few(a), Nodes::Few(b)) => a == b,
            (Nodes::Many(a), Nodes::Many(b)) => {
                let common = a.len().min(b.len());
                let tail = |words: &[u64]| words.iter().skip(common).all(|&word| word == 0);
                a.iter().zip(b).all(|(a, b)| a == b) && tail(a) && tail(b)
            }
            (Nodes::Few(list), Nodes::Many(words)) | (Nodes::Many(words), Nodes::Few(list)) => {
                ones(words).eq(list.iter().copied())
            }
        }
    }

    /// Size of the set on the heap, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.nodes {
            Nodes::Few(list) => list.capacity().saturating_mul(2),
            Nodes::Many(words) => words.capacity().saturating_mul(8),
        }
    }
}

fn flip(words: &mut Vec<u64>, node: u16) {
    let at = usize::from(node / 64);
    if words.len() <= at {
        words.resize(at.saturating_add(1), 0);
    }
    if let Some(word) = words.get_mut(at) {
        *word ^= 1 << (node % 64);
    }
}

fn ones(words: &[u64]) -> impl Iterator<Item = u16> {
    let numbers = (0..=u16::MAX).step_by(64).zip(words);
    numbers.flat_map(|(first, &word)| {
        (0..64_u16)
            .filter(move |bit| word >> bit & 1 == 1)
            .map(move |bit| first | bit)
    })
}

/// Scrambles a number by the finalizer of SplitMix64.
const fn scrambled(node: u16) -> u64 {
    let mut mixed = (node as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_whatever_its_form(
            steps in proptest::collection::vec(0..300_u16, 0..200), cluster in 1..4_000_usize,
        ) {
            let (mut set, mut model) = (NodeSet::default(), BTreeSet::new());
            for node in steps {
                if model.insert(node) {
                    set.insert(node, cluster);
                } else {
                    model.remove(&node);
                    set.remove(node, cluster);
                }
                prop_assert_eq!(set.is_empty(), model.is_empty());
            }
            for node in 0..320 {
                prop_assert_eq!(set.contains(node), model.contains(&node));
            }
            // Sets of the same nodes, built in another order and form.
            let (mut few, mut many) = (NodeSet::default(), NodeSet::default());
            for &node in model.iter().rev() {
                few.insert(node, 1 << 16);
                many.insert(node, 1);
            }
            prop_assert!(few.same(&set) && many.same(&set) && few.same(&many));
            few.insert(400, 1 << 16);
            prop_assert!(!few.same(&set));
        }
    }
}
