//! The paper's algorithm: DTS, then the most similar node.

use super::input::MAX_INSTANCES;
use super::instance::{ProblemInstance, Slot};
use super::layout::Layout;
use crate::cost::MemoryTerm;
use crate::dts::dts;
use crate::numbered::Numbered as _;

/// Places instances as Tetris 3.2 does: DTS for each model alone, counting all memory, and each
/// instance on the node with room and the largest theta. Among equal nodes it takes the one with
/// the most free memory. If an instance finds no room, the error is the layout so far.
///
/// A node's theta counts its own tensors and those that earlier placed instances bring. Running
/// instances stay as far as DTS selects them.
pub(super) fn published<'a>(
    instance: &'a ProblemInstance<'a>,
) -> Result<Layout<'a>, Box<Layout<'a>>> {
    let mut layout = Layout::new(instance);
    for model in 0..instance.choices.len() {
        if place_all(&mut layout, model).is_none() {
            return Err(Box::new(layout));
        }
    }
    Ok(layout)
}

fn place_all(layout: &mut Layout<'_>, model: usize) -> Option<()> {
    let instance = layout.instance();
    let demand = instance.problem.demands.at(model);
    let whole = instance.weights(model).counting(MemoryTerm::Whole);
    let selection = dts(&demand.profile, demand.slo, demand.load, whole).ok()?;
    for chosen in selection.choices {
        for _ in 0..chosen.count {
            let slot = most_similar(layout, model, chosen.configuration)?;
            if layout.instances() >= MAX_INSTANCES || !layout.add(slot) {
                return None;
            }
        }
    }
    Some(())
}

/// Returns the slot with the least missing bytes, which is the largest theta for a given model.
fn most_similar(layout: &Layout<'_>, model: usize, configuration: usize) -> Option<Slot> {
    let slots = layout.slots_of(model, configuration);
    let with = slots.map(|slot| (slot, layout.missing(model, slot.node)));
    let fitting = with.filter(|&(slot, missing)| {
        let lacks = layout.lacks(slot, missing);
        lacks.is_some_and(|lacks| lacks.is_none())
    });
    let best = fitting.min_by_key(|&(slot, missing)| {
        let free = layout.free(slot.node).memory_bytes;
        let copied = layout.copied(slot);
        let missing = u128::from(missing) + u128::from(copied);
        (missing, std::cmp::Reverse(free), slot.node, slot.choice)
    });
    best.map(|(slot, _)| slot)
}
