//! Inventory of the objects in the nodes' stores.

mod limits;
mod model;
mod node_set;
mod theta;

use std::collections::{BTreeMap, HashMap};

use tetris_store_layout::ObjectId;

pub use limits::{InventoryFull, InventoryLimits, MAX_NODES};
pub use model::{ModelError, ModelTensors};
pub use theta::{Similarity, Thetas};

use crate::numbered::Numbered as _;
use limits::Size;
use node_set::NodeSet;

/// Objects of each node.
///
/// **Memory.** Objects have numbers. A node keeps the sorted numbers of its objects, 4 bytes each,
/// to compare a new list with the last one. An object keeps its nodes as a list, 2 bytes each, or
/// as one bit per node of the cluster once that is smaller. So a pair costs at most 6 bytes (a
/// growing list may reserve as much again), and an object some 150 more. An update beyond the
/// [`InventoryLimits`] is refused as a whole.
///
/// **Rationale.** A model's theta reads only the sets of its objects. Objects that were loaded
/// together are on the same nodes: a fingerprint finds equal sets, and each is read once. If all
/// sets differ, bits are added for eight objects at a time (`cargo bench -p tetris-scaler-core`
/// measures both, and one node's update). Hash sets per node would cost a probe for each pair of
/// node and object: about a second for 1,000 objects, compared to 2 ms at worst here.
///
/// Node names may come in any order; results do not depend on it.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    limits: InventoryLimits,
    numbers: HashMap<ObjectId, u32>,
    objects: Vec<Object>,
    unused_objects: Vec<u32>,
    names: BTreeMap<String, u16>,
    /// Numbers of objects by node number, sorted; empty for unused node numbers.
    nodes: Vec<Vec<u32>>,
    unused_nodes: Vec<u16>,
    pairs: usize,
}

#[derive(Clone, Debug)]
struct Object {
    id: ObjectId,
    nodes: NodeSet,
}

/// Changes by an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Number of objects that the node gained.
    pub added: usize,
    /// Number of objects that it lost.
    pub removed: usize,
}

impl Inventory {
    /// Creates an empty inventory.
    pub fn new(limits: InventoryLimits) -> Self {
        Self {
            limits: InventoryLimits {
                nodes: limits.nodes.min(MAX_NODES),
                objects: limits.objects.min(u32::MAX as usize),
                ..limits
            },
            ..Self::default()
        }
    }

    /// Replaces the objects of `node`. Costs a look-up for each object, and work for each change.
    ///
    /// # Errors
    ///
    /// Fails if the update exceeds a limit; the inventory is unchanged then.
    pub fn set_node(&mut self, node: &str, has: &[ObjectId]) -> Result<Change, InventoryFull> {
        let known = self.names.get(node).copied();
        let (mut now, unknown) = self.numbered(has);
        let before = known.map(|number| std::mem::take(self.nodes.at_mut(usize::from(number))));
        let before = before.unwrap_or_default();
        let added = difference(&now, &before);
        let removed = difference(&before, &now);
        let would_be = Size {
            nodes: self
                .names
                .len()
                .saturating_add(usize::from(known.is_none())),
            // Objects that this update removes still count, for simplicity.
            objects: self.numbers.len().saturating_add(unknown.len()),
            pairs: (self.pairs.saturating_sub(removed.len()))
                .saturating_add(added.len())
                .saturating_add(unknown.len()),
        };
        if let Err(full) = self.limits.check(node, &would_be) {
            if let Some(number) = known {
                *self.nodes.at_mut(usize::from(number)) = before;
            }
            return Err(full);
        }
        let number = known.unwrap_or_else(|| self.number_node(node));
        let new: Vec<u32> = unknown.iter().map(|id| self.number_object(*id)).collect();
        let change = Change {
            added: added.len().saturating_add(new.len()),
            removed: removed.len(),
        };
        now.extend(&new);
        now.sort_unstable();
        self.apply(number, added.iter().chain(&new), &removed);
        *self.nodes.at_mut(usize::from(number)) = now;
        Ok(change)
    }

    /// Removes `node`. Returns true if it was known.
    pub fn remove_node(&mut self, node: &str) -> bool {
        let Some(number) = self.names.remove(node) else {
            return false;
        };
        let had = std::mem::take(self.nodes.at_mut(usize::from(number)));
        self.apply(number, [].iter(), &had);
        self.unused_nodes.push(number);
        true
    }

    /// Names of the nodes, sorted.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Number of different objects over all nodes.
    pub fn object_count(&self) -> usize {
        self.numbers.len()
    }

    /// Number of pairs of a node and an object.
    pub const fn pair_count(&self) -> usize {
        self.pairs
    }

    /// Approximate size of the inventory in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lists = self
            .nodes
            .iter()
            .map(|list| list.capacity().saturating_mul(4));
        let sets = self.objects.iter().map(|object| object.nodes.heap_bytes());
        // The table keeps one slot in eight free, and a control byte for each.
        let entry = size_of::<(ObjectId, u32)>().saturating_add(1);
        let slots = self.objects.capacity();
        let fixed = [
            slots.saturating_mul(entry).saturating_mul(8) / 7,
            slots.saturating_mul(size_of::<Object>()),
        ];
        let all = lists.chain(sets).chain(fixed);
        all.fold(0, usize::saturating_add)
    }

    /// Returns the sorted numbers of known objects, and the unknown objects, without duplicates.
    fn numbered(&self, has: &[ObjectId]) -> (Vec<u32>, Vec<ObjectId>) {
        let (mut known, mut unknown) = (Vec::with_capacity(has.len()), Vec::new());
        for id in has {
            match self.numbers.get(id) {
                Some(&number) => known.push(number),
                None => unknown.push(*id),
            }
        }
        known.sort_unstable();
        known.dedup();
        unknown.sort_unstable();
        unknown.dedup();
        (known, unknown)
    }

    fn apply<'a>(&mut self, node: u16, added: impl Iterator<Item = &'a u32>, removed: &[u32]) {
        let cluster = self.nodes.len();
        for &number in added {
            self.objects
                .at_mut(number as usize)
                .nodes
                .insert(node, cluster);
            self.pairs = self.pairs.saturating_add(1);
        }
        for &number in removed {
            let object = self.objects.at_mut(number as usize);
            object.nodes.remove(node, cluster);
            self.pairs = self.pairs.saturating_sub(1);
            if object.nodes.is_empty() {
                self.numbers.remove(&object.id);
                self.unused_objects.push(number);
            }
        }
    }

    fn number_node(&mut self, node: &str) -> u16 {
        let number = self.unused_nodes.pop().unwrap_or_else(|| {
            // The limit was checked, so numbers fit.
            let number = u16::try_from(self.nodes.len()).unwrap_or(u16::MAX);
            self.nodes.push(Vec::new());
            number
        });
        self.names.insert(node.to_owned(), number);
        number
    }

    fn number_object(&mut self, id: ObjectId) -> u32 {
        let nodes = NodeSet::default();
        let object = Object { id, nodes };
        let reused = self.unused_objects.pop();
        let number = if let Some(number) = reused {
            *self.objects.at_mut(number as usize) = object;
            number
        } else {
            self.objects.push(object);
            u32::try_from(self.objects.len().saturating_sub(1)).unwrap_or(u32::MAX)
        };
        self.numbers.insert(id, number);
        number
    }
}

/// Returns the elements of `a` that are not in `b`; both are sorted.
fn difference(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut rest = b.iter().peekable();
    let mut only = Vec::new();
    for &number in a {
        while rest.next_if(|&&other| other < number).is_some() {}
        if rest.peek().is_none_or(|&&other| other != number) {
            only.push(number);
        }
    }
    only
}
