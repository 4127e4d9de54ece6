//! Construction of instances for the uncovered load of a model.

use std::cmp::{Ordering, Reverse};

use super::input::MAX_INSTANCES;
use super::instance::Slot;
use super::layout::Layout;
use super::room::share;
use crate::exact::solve_within;
use crate::numbered::Numbered as _;
use crate::rate::Rate;

/// Method of construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// One by one, by cost per uncovered request; considers tensors, starts and room.
    Marginal,
    /// The cheapest configurations regardless of room, then a node for each.
    Exact,
    /// One by one, with the least use of the scarcest resource, for nodes with little room.
    Tight,
}

impl Method {
    pub(super) const ALL: [Self; 3] = [Self::Marginal, Self::Exact, Self::Tight];
}

/// Maximum steps of the exact solver for one refill; there are thousands of refills.
const REFILL_STEPS: usize = 20_000;

impl Layout<'_> {
    /// Adds instances of `model` until they carry its load. Returns false if there is no room.
    pub(super) fn fill(&mut self, model: usize, method: Method) -> bool {
        if method == Method::Exact {
            self.fill_exact(model);
        }
        while self.uncovered(model) > 0 {
            if self.instances() >= MAX_INSTANCES {
                return false;
            }
            let Some(slot) = self.best_slot(model, method) else {
                return false;
            };
            if !self.add(slot) {
                return false;
            }
        }
        self.trim(model);
        true
    }

    /// Removes redundant instances, the most expensive first.
    pub(super) fn trim(&mut self, model: usize) {
        let mut slots = self.slots(|slot| slot.model == model);
        slots.sort_by_key(|&(slot, _)| Reverse(self.instance().choice(slot).price));
        for (slot, count) in slots {
            let rate = self.instance().choice(slot).rate;
            for _ in 0..count {
                let load = u128::from(self.instance().load(model));
                if self.rate(model).saturating_sub(rate.into()) < load {
                    break;
                }
                self.remove(slot);
            }
        }
    }

    /// Returns the slots that `wanted` selects, with their numbers of instances.
    pub(super) fn slots(&self, wanted: impl Fn(&Slot) -> bool) -> Vec<(Slot, u32)> {
        let slots = self.counts().iter();
        let slots = slots.filter(|(slot, _)| wanted(slot));
        slots.map(|(slot, count)| (*slot, *count)).collect()
    }

    /// Returns the slot to add next, or `None` if none fits.
    fn best_slot(&self, model: usize, method: Method) -> Option<Slot> {
        let uncovered = self.uncovered(model);
        let choices = self.instance().choices.at(model);
        let mut best: Option<(u128, u128, u64, Slot)> = None;
        for node in self.nodes() {
            let missing = self.missing(model, node);
            for (choice, entry) in choices.iter().enumerate() {
                let slot = Slot {
                    model,
                    node,
                    choice,
                };
                if !self.has_room(slot, missing) {
                    continue;
                }
                let cost = match method {
                    Method::Tight => self.strain(slot, missing),
                    Method::Marginal | Method::Exact => self.price(slot, missing),
                };
                let gain = u128::from(entry.rate.min(uncovered));
                // Among equal slots, take the node with the most free CPU, as loads grow in place.
                let room = self.free(node).cpu_millis;
                let less = best.is_none_or(|(other_cost, other_gain, other_room, _)| {
                    per_request(cost, gain, other_cost, other_gain).then(other_room.cmp(&room))
                        == Ordering::Less
                });
                if less {
                    best = Some((cost, gain, room, slot));
                }
            }
        }
        best.map(|(_, _, _, slot)| slot)
    }

    fn has_room(&self, slot: Slot, missing: u64) -> bool {
        let lacks = self.lacks(slot, missing);
        lacks.is_some_and(|lacks| lacks.is_none())
    }

    /// Returns the largest share of the free resources of the node and its GPU that an instance takes,
    /// in millionths.
    fn strain(&self, slot: Slot, missing: u64) -> u128 {
        let needs = self.instance().choice(slot).needs;
        let store = self.store_room(slot.model, slot.node);
        let of_store = store.map_or(0, |room| share(missing, room));
        let strain = self.free(slot.node).strain(needs, missing).max(of_store);
        strain.max(self.strain_of_gpu(slot))
    }

    /// Adds the optimal configurations for the uncovered load, each on the node where it costs
    /// least; skips instances without room.
    fn fill_exact(&mut self, model: usize) {
        let instance = self.instance();
        let demand = instance.problem.demands.at(model);
        let rest = Rate::from_micro_rps(self.uncovered(model));
        let solved = solve_within(
            &demand.profile,
            demand.slo,
            rest,
            instance.weights(model),
            REFILL_STEPS,
        );
        let Ok(solution) = solved else {
            return;
        };
        let all = demand.profile.configurations();
        let price = |at: usize| instance.weights(model).of(all.at(at));
        let mut wanted = solution.selection.choices;
        wanted.sort_by_key(|chosen| (Reverse(price(chosen.configuration)), chosen.configuration));
        for chosen in wanted {
            self.add_cheaply(model, chosen.configuration, chosen.count);
        }
    }

    /// Adds up to `count` instances while there is room.
    fn add_cheaply(&mut self, model: usize, configuration: usize, count: u64) {
        for _ in 0..count {
            let Some(slot) = self.least_missing(model, configuration) else {
                return;
            };
            if self.instances() >= MAX_INSTANCES || !self.add(slot) {
                return;
            }
        }
    }

    /// Returns the slot where one more instance costs least, and among equals the one with the most
    /// free CPU.
    fn least_missing(&self, model: usize, configuration: usize) -> Option<Slot> {
        let slots = self.slots_of(model, configuration);
        let with = slots.map(|slot| (slot, self.missing(model, slot.node)));
        let fitting = with.filter(|&(slot, missing)| self.has_room(slot, missing));
        let best = fitting.min_by_key(|&(slot, missing)| {
            (
                self.price(slot, missing),
                Reverse(self.free(slot.node).cpu_millis),
                slot.node,
                slot.choice,
            )
        });
        best.map(|(slot, _)| slot)
    }
}

/// Compares `a / b` with `c / d`, all positive. If products would exceed 128 bits, which takes more
/// than 2^60 bytes or requests, it drops the lowest bits of the costs.
fn per_request(a: u128, b: u128, c: u128, d: u128) -> Ordering {
    let excess = 64_u32.saturating_sub(a.max(c).leading_zeros());
    let (a, c) = (a >> excess, c >> excess);
    a.saturating_mul(d).cmp(&c.saturating_mul(b))
}
