//! What the nodes of a cluster have in their stores.

mod limits;
mod model;
mod node_set;
mod theta;

use std::collections::{BTreeMap, HashMap};

use tetris_store_layout::ObjectId;

pub use limits::{InventoryFull, InventoryLimits, MAX_NODES};
pub use model::{ModelError, ModelTensors};
pub use theta::{Similarity, Thetas};

use limits::Size;
use node_set::NodeSet;

/// Which objects each node has.
///
/// **Memory.** Objects are numbered. A node keeps the numbers of its objects, 4 bytes each, which is how
/// a new list is compared with the last one. An object keeps its nodes as a list, 2 bytes each, or as
/// one bit per node of the cluster once that is smaller. So a pair costs 6 bytes at most (a list may have
/// as much again in reserve while it grows), an object some 150 beside. What exceeds
/// the [`InventoryLimits`] is refused, and nothing of it is taken in.
///
/// **Why per object.** A model's theta reads the sets of its own objects and nothing else. Objects that
/// were loaded together are on the same nodes: equal sets are found by a fingerprint, and read once.
/// Where all sets differ, bits are added up for eight objects at a time
/// (`cargo bench -p tetris-scaler-core` measures both, and one node's update). Hash sets per node
/// would cost a probe for each pair of node and object: about a second for 1,000 objects, where this takes
/// 2 ms at worst.
///
/// Node names come in any order; what is computed does not depend on it.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    limits: InventoryLimits,
    numbers: HashMap<ObjectId, u32>,
    objects: Vec<Object>,
    unused_objects: Vec<u32>,
    names: BTreeMap<String, u16>,
    /// By node number, sorted; nothing for numbers that are unused.
    nodes: Vec<Vec<u32>>,
    unused_nodes: Vec<u16>,
    pairs: usize,
}

#[derive(Clone, Debug)]
struct Object {
    id: ObjectId,
    nodes: NodeSet,
}

/// What an update changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Objects that the node has now and had not.
    pub added: usize,
    /// Objects that it had and has no more.
    pub removed: usize,
}

impl Inventory {
    /// An empty inventory.
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

    /// Sets what `node` has, whatever it had before. Costs a look-up for each object, and work for those
    /// that came or went.
    pub fn set_node(&mut self, node: &str, has: &[ObjectId]) -> Result<Change, InventoryFull> {
        let known = self.names.get(node).copied();
        let (mut now, unknown) = self.numbered(has);
        let before = known.and_then(|number| self.nodes.get_mut(usize::from(number)));
        let before = before.map(std::mem::take).unwrap_or_default();
        let added = difference(&now, &before);
        let removed = difference(&before, &now);
        let would_be = Size {
            nodes: self
                .names
                .len()
                .saturating_add(usize::from(known.is_none())),
            // Objects that go with this update still count: a limit is no place for cleverness.
            objects: self.numbers.len().saturating_add(unknown.len()),
            pairs: (self.pairs.saturating_sub(removed.len()))
                .saturating_add(added.len())
                .saturating_add(unknown.len()),
        };
        if let Err(full) = self.limits.check(node, &would_be) {
            self.put(known, before);
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
        self.put(Some(number), now);
        Ok(change)
    }

    /// Forgets `node`; says whether it was known.
    pub fn remove_node(&mut self, node: &str) -> bool {
        let Some(number) = self.names.remove(node) else {
            return false;
        };
        let had = self.nodes.get_mut(usize::from(number)).map(std::mem::take);
        self.apply(number, [].iter(), &had.unwrap_or_default());
        self.unused_nodes.push(number);
        true
    }

    /// The nodes by name.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// How many different objects all nodes have together.
    pub fn object_count(&self) -> usize {
        self.numbers.len()
    }

    /// How many pairs of a node and an object there are.
    pub const fn pair_count(&self) -> usize {
        self.pairs
    }

    /// About how much memory it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let lists = self
            .nodes
            .iter()
            .map(|list| list.capacity().saturating_mul(4));
        let sets = self.objects.iter().map(|object| object.nodes.heap_bytes());
        // The table has a slot in eight to spare, and a control byte for each.
        let entry = size_of::<(ObjectId, u32)>().saturating_add(1);
        let slots = self.objects.capacity();
        let fixed = [
            slots.saturating_mul(entry).saturating_mul(8) / 7,
            slots.saturating_mul(size_of::<Object>()),
        ];
        let all = lists.chain(sets).chain(fixed);
        all.fold(0, usize::saturating_add)
    }

    /// The numbers of known objects, sorted, and unknown objects, each once.
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

    fn put(&mut self, node: Option<u16>, has: Vec<u32>) {
        let slot = node.and_then(|number| self.nodes.get_mut(usize::from(number)));
        if let Some(slot) = slot {
            *slot = has;
        }
    }

    fn apply<'a>(&mut self, node: u16, added: impl Iterator<Item = &'a u32>, removed: &[u32]) {
        let cluster = self.nodes.len();
        for &number in added {
            if let Some(object) = self.objects.get_mut(number as usize) {
                object.nodes.insert(node, cluster);
                self.pairs = self.pairs.saturating_add(1);
            }
        }
        for &number in removed {
            if let Some(object) = self.objects.get_mut(number as usize) {
                object.nodes.remove(node, cluster);
                self.pairs = self.pairs.saturating_sub(1);
                if object.nodes.is_empty() {
                    self.numbers.remove(&object.id);
                    self.unused_objects.push(number);
                }
            }
        }
    }

    fn number_node(&mut self, node: &str) -> u16 {
        let number = self.unused_nodes.pop().unwrap_or_else(|| {
            // The limit has been checked: numbers fit.
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
        let slot = reused.and_then(|number| self.objects.get_mut(number as usize));
        let number = if let (Some(number), Some(slot)) = (reused, slot) {
            *slot = object;
            number
        } else {
            self.objects.push(object);
            u32::try_from(self.objects.len().saturating_sub(1)).unwrap_or(u32::MAX)
        };
        self.numbers.insert(id, number);
        number
    }
}

/// What is in `a` and not in `b`; both are sorted.
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
