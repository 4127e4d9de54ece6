//! A placement under construction.

use std::collections::{BTreeMap, BTreeSet};

use super::device::Devices;
use super::instance::{ProblemInstance, Slot, StoreRooms};
use super::room::Room;
use super::shortage::Shortage;
use crate::numbered::Numbered as _;

/// Instances by slot, and quantities derived from them, kept up to date.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    instance: &'a ProblemInstance<'a>,
    counts: BTreeMap<Slot, u32>,
    /// Number of instances of a model on a node.
    hosted: BTreeMap<(usize, usize), u32>,
    /// Number of models there that have an atom, by node and atom. Empty for a node that never had
    /// an instance.
    uses: Vec<Vec<u32>>,
    /// Number of instances of a node, for nodes with instances.
    busy: BTreeMap<usize, u32>,
    /// Nodes without instances, by kind.
    idle: Vec<BTreeSet<usize>>,
    /// Free resources by node.
    free: Vec<Room>,
    stores: StoreRooms,
    devices: Devices<'a>,
    /// Rate by model; above 2^64 if single instances are that fast.
    rates: Vec<u128>,
    instances: usize,
    cost: u128,
    /// Changes since the last mark, for undo.
    log: Vec<(Slot, bool)>,
}

impl<'a> Layout<'a> {
    pub(super) fn new(instance: &'a ProblemInstance<'a>) -> Self {
        let nodes = &instance.problem.nodes;
        Self {
            instance,
            counts: BTreeMap::new(),
            hosted: BTreeMap::new(),
            uses: vec![Vec::new(); nodes.len()],
            busy: BTreeMap::new(),
            idle: instance.kinds.clone(),
            free: instance.free.clone(),
            stores: instance.stores.clone(),
            devices: Devices::new(instance),
            rates: vec![0; instance.choices.len()],
            instances: 0,
            cost: 0,
            log: Vec::new(),
        }
    }

    pub(super) const fn instance(&self) -> &'a ProblemInstance<'a> {
        self.instance
    }

    pub(super) const fn cost(&self) -> u128 {
        self.cost
    }

    pub(super) const fn instances(&self) -> usize {
        self.instances
    }

    pub(super) const fn counts(&self) -> &BTreeMap<Slot, u32> {
        &self.counts
    }

    pub(super) fn free(&self, node: usize) -> Room {
        *self.free.at(node)
    }

    /// Returns the room of the model's store on a node, in bytes, if it has less than the node.
    pub(super) fn store_room(&self, model: usize, node: usize) -> Option<u64> {
        let store = (node, self.instance.store(model));
        self.stores.get(&store).copied()
    }

    pub(super) fn rate(&self, model: usize) -> u128 {
        *self.rates.at(model)
    }

    /// Load without capacity so far, in millionths of a request per second.
    pub(super) fn uncovered(&self, model: usize) -> u64 {
        let rest = u128::from(self.instance.load(model)).saturating_sub(self.rate(model));
        u64::try_from(rest).unwrap_or(u64::MAX)
    }

    /// Returns the nodes to consider: those with instances, and one of each kind of the others.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> {
        let idle = self.idle.iter().filter_map(|kind| kind.first());
        self.busy.keys().chain(idle).copied()
    }

    /// Returns the slots of a configuration on the nodes to consider, with each GPU that they have for
    /// it.
    pub(super) fn slots_of(
        &self,
        model: usize,
        configuration: usize,
    ) -> impl Iterator<Item = Slot> {
        let choices = self.instance.choices.at(model).iter().enumerate();
        let same = choices.filter(move |(_, entry)| entry.configuration == configuration);
        let same: Vec<usize> = same.map(|(choice, _)| choice).collect();
        let slots = self.nodes().map(move |node| {
            let same = same.clone().into_iter();
            same.map(move |choice| Slot {
                model,
                node,
                choice,
            })
        });
        slots.flatten()
    }

    /// Returns the bytes that one more instance copies to its GPU.
    pub(super) fn copied(&self, slot: Slot) -> u64 {
        self.devices.brings(slot).copied
    }

    /// Returns the largest share of its GPU's room that an instance takes, in millionths.
    pub(super) fn strain_of_gpu(&self, slot: Slot) -> u128 {
        self.devices.strain(slot)
    }

    /// Returns the bytes of the model's tensors that the node lacks, given the instances placed so
    /// far.
    pub(super) fn missing(&self, model: usize, node: usize) -> u64 {
        if self.hosted.contains_key(&(model, node)) {
            return 0;
        }
        // Empty before the node's first instance.
        let uses = self.uses.at(node);
        let used = |atom: usize| uses.get(atom).is_some_and(|&count| count > 0);
        let atoms = self.instance.atoms_of.at(model).iter();
        let absent = atoms.filter(|&&atom| !used(atom));
        let bytes = absent.map(|&atom| self.instance.atoms.at(atom).missing.at(node));
        // The sum is a part of the model's total, which fits.
        bytes.fold(0, |sum, &bytes| bytes.saturating_add(sum))
    }

    /// Returns the node's shortage for one more instance, given the `missing` bytes of the model's
    /// tensors. `None` if the node takes no instance beyond the running ones.
    pub(super) fn lacks(&self, slot: Slot, missing: u64) -> Option<Shortage> {
        let running = self.instance.current.get(&slot).copied().unwrap_or(0);
        let node = self.instance.problem.nodes.at(slot.node);
        let choice = self.instance.choice(slot);
        let may_start = node.accepts_new && (choice.gpu.is_some() || !node.gpus_only);
        if !may_start && self.count(slot) >= running {
            return None;
        }
        let needs = choice.needs;
        let mut lacks = self.free(slot.node).lacks(needs, missing);
        if let Some(room) = self.store_room(slot.model, slot.node) {
            lacks.tensor_bytes = lacks.tensor_bytes.max(missing.saturating_sub(room));
        }
        self.devices.add_lacks(slot, &mut lacks);
        Some(lacks)
    }

    /// Returns the device memory that one more instance takes, in bytes, and its part of a GPU's time,
    /// in thousandths.
    pub(super) fn needs_of_gpu(&self, slot: Slot) -> (u64, u64) {
        self.devices.needs(slot)
    }

    /// Cost of one more instance, given the `missing` bytes of the model's tensors on the node. On a
    /// GPU, those that must be copied there cost as well.
    pub(super) fn price(&self, slot: Slot, missing: u64) -> u128 {
        let price = self.instance.choice(slot).price;
        let missing = u128::from(missing) + u128::from(self.devices.brings(slot).copied);
        u128::from(price) + missing + self.start_cost(slot, self.count(slot))
    }

    fn count(&self, slot: Slot) -> u32 {
        self.counts.get(&slot).copied().unwrap_or(0)
    }

    /// Start cost of an instance beyond `count` others in its slot.
    fn start_cost(&self, slot: Slot, count: u32) -> u128 {
        let running = self.instance.current.get(&slot).copied().unwrap_or(0);
        if count < running {
            0
        } else {
            self.instance.problem.start_cost_bytes.into()
        }
    }

    /// Adds an instance if it fits. Returns true if it does.
    pub(super) fn add(&mut self, slot: Slot) -> bool {
        let missing = self.missing(slot.model, slot.node);
        if self.lacks(slot, missing) != Some(Shortage::default()) {
            return false;
        }
        self.cost = self.cost.saturating_add(self.price(slot, missing));
        let count = self.counts.entry(slot).or_default();
        *count = count.saturating_add(1);
        let hosted = self.hosted.entry((slot.model, slot.node)).or_default();
        *hosted = hosted.saturating_add(1);
        if *hosted == 1 {
            self.count_atoms(slot, 1);
        }
        self.devices.add(slot);
        self.account(slot, missing, true);
        self.log.push((slot, true));
        true
    }

    /// Removes an instance. Returns false if there is none.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let Some(count) = self.counts.get_mut(&slot) else {
            return false;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(&slot);
        }
        let host = (slot.model, slot.node);
        let hosted = self.hosted.entry(host).or_default();
        *hosted = hosted.saturating_sub(1);
        if *hosted == 0 {
            self.hosted.remove(&host);
            self.count_atoms(slot, -1);
        }
        self.devices.remove(slot);
        let missing = self.missing(slot.model, slot.node);
        self.cost = self.cost.saturating_sub(self.price(slot, missing));
        self.account(slot, missing, false);
        self.log.push((slot, false));
        true
    }

    fn count_atoms(&mut self, slot: Slot, by: i32) {
        let uses = self.uses.at_mut(slot.node);
        uses.resize(self.instance.atoms.len(), 0);
        for &atom in self.instance.atoms_of.at(slot.model) {
            let count = uses.at_mut(atom);
            *count = count.saturating_add_signed(by);
        }
    }

    fn account(&mut self, slot: Slot, missing: u64, added: bool) {
        let choice = self.instance.choice(slot);
        let (free, rate) = (self.free.at_mut(slot.node), self.rates.at_mut(slot.model));
        let store = (slot.node, self.instance.store(slot.model));
        let room = self.stores.get_mut(&store);
        let busy = self.busy.entry(slot.node).or_default();
        // It fitted when it was added, so nothing saturates.
        if added {
            free.take(choice.needs, missing);
            if let Some(room) = room {
                *room = room.saturating_sub(missing);
            }
            *rate = rate.saturating_add(choice.rate.into());
            self.instances = self.instances.saturating_add(1);
            *busy = busy.saturating_add(1);
        } else {
            free.give(choice.needs, missing);
            if let Some(room) = room {
                *room = room.saturating_add(missing);
            }
            *rate = rate.saturating_sub(choice.rate.into());
            self.instances = self.instances.saturating_sub(1);
            *busy = busy.saturating_sub(1);
        }
        self.sort_in(slot.node);
    }

    /// Moves a node into or out of the idle ones, according to its instances.
    fn sort_in(&mut self, node: usize) {
        let kind = *self.instance.kind_of.at(node);
        let idle = self.idle.at_mut(kind);
        if self.busy.get(&node) == Some(&0) {
            self.busy.remove(&node);
            idle.insert(node);
        } else {
            idle.remove(&node);
        }
    }

    /// Sets the mark for [`undo`](Self::undo).
    pub(super) fn mark(&mut self) {
        self.log.clear();
    }

    /// Undoes all changes since the last mark.
    pub(super) fn undo(&mut self) {
        while let Some((slot, added)) = self.log.pop() {
            if added {
                self.remove(slot);
            } else {
                self.add(slot);
            }
            // Keep the reverted change out of the log.
            self.log.pop();
        }
    }
}
