//! Improvement of placements by ruin and recreate.

use std::collections::BTreeSet;

use super::construct::Method;
use super::instance::Slot;
use super::layout::Layout;

/// Part of a placement to remove for one trial.
#[derive(Clone, Copy, Debug)]
enum Ruin {
    /// One instance.
    One(Slot),
    /// The instances of a model on a node.
    Host(usize, usize),
    /// All instances of a model.
    Model(usize),
    /// All instances on a node.
    Node(usize),
    /// All instances of two models that share tensors.
    Pair(usize, usize),
}

/// Tries changes until none helps, `trials` are used up, or the cost reaches `bound`. The cost
/// never rises.
pub(super) fn improve(layout: &mut Layout<'_>, mut trials: usize, bound: u128) {
    loop {
        let before = layout.cost();
        for ruin in ruins(layout) {
            for method in Method::ALL {
                if trials == 0 || layout.cost() <= bound {
                    return;
                }
                trials = trials.saturating_sub(1);
                attempt(layout, ruin, method);
            }
        }
        if layout.cost() >= before {
            return;
        }
    }
}

/// Returns all removable parts, small ones first.
fn ruins(layout: &Layout<'_>) -> Vec<Ruin> {
    let slots: Vec<Slot> = layout.counts().keys().copied().collect();
    let hosts: BTreeSet<_> = slots.iter().map(|slot| (slot.model, slot.node)).collect();
    let models: BTreeSet<_> = slots.iter().map(|slot| slot.model).collect();
    let nodes: BTreeSet<_> = slots.iter().map(|slot| slot.node).collect();
    let mut pairs = BTreeSet::new();
    for atom in &layout.instance().atoms {
        // In a large family only neighbors form pairs, as there would be too many.
        let with_next = atom.models.iter().zip(atom.models.iter().skip(1));
        pairs.extend(with_next.map(|(&a, &b)| (a, b)));
    }
    let mut ruins: Vec<Ruin> = slots.into_iter().map(Ruin::One).collect();
    ruins.extend(
        hosts
            .into_iter()
            .map(|(model, node)| Ruin::Host(model, node)),
    );
    ruins.extend(models.into_iter().map(Ruin::Model));
    ruins.extend(nodes.into_iter().map(Ruin::Node));
    ruins.extend(pairs.into_iter().map(|(a, b)| Ruin::Pair(a, b)));
    ruins
}

impl Ruin {
    fn takes(self, slot: Slot) -> bool {
        match self {
            Self::One(one) => slot == one,
            Self::Host(model, node) => (slot.model, slot.node) == (model, node),
            Self::Model(model) => slot.model == model,
            Self::Node(node) => slot.node == node,
            Self::Pair(a, b) => slot.model == a || slot.model == b,
        }
    }

    fn count(self, present: u32) -> u32 {
        if matches!(self, Self::One(_)) {
            1
        } else {
            present
        }
    }
}

/// Removes a part and refills; undoes that unless it is cheaper.
fn attempt(layout: &mut Layout<'_>, ruin: Ruin, method: Method) {
    let before = layout.cost();
    layout.mark();
    let mut affected = BTreeSet::new();
    for (slot, present) in layout.slots(|slot| ruin.takes(*slot)) {
        for _ in 0..ruin.count(present) {
            layout.remove(slot);
        }
        affected.insert(slot.model);
    }
    let mut order: Vec<usize> = affected.into_iter().collect();
    // One of the methods refills the affected models in the reverse order.
    if method == Method::Exact {
        order.reverse();
    }
    let filled = order.into_iter().all(|model| layout.fill(model, method));
    if !filled || layout.cost() >= before {
        layout.undo();
    }
}
