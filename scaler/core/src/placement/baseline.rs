//! What the paper does: DTS, then the most similar node.

use super::ground::{Ground, Slot};
use super::input::MAX_INSTANCES;
use super::layout::Layout;
use crate::cost::MemoryTerm;
use crate::dts::dts;

/// Tetris 3.2: DTS for each model by itself, counting all memory, and each instance on the node with the
/// largest theta that has room; of several, the one with most free memory. As far as it came if an
/// instance finds no room.
///
/// A node's theta counts what it has, and what instances that are placed before bring there. Instances
/// that run stay as far as DTS wants them.
pub(super) fn published<'a>(ground: &'a Ground<'a>) -> Result<Layout<'a>, Box<Layout<'a>>> {
    let mut layout = Layout::new(ground);
    for model in 0..ground.choices.len() {
        if place_all(&mut layout, model).is_none() {
            return Err(Box::new(layout));
        }
    }
    Ok(layout)
}

fn place_all(layout: &mut Layout<'_>, model: usize) -> Option<()> {
    let ground = layout.ground();
    let demand = ground.problem.demands.get(model)?;
    let whole = ground.weights(model).counting(MemoryTerm::Whole);
    let selection = dts(&demand.profile, demand.slo, demand.load, whole).ok()?;
    for chosen in selection.choices {
        let mut choices = ground.choices.get(model)?.iter();
        let choice = choices.position(|one| one.configuration == chosen.configuration)?;
        for _ in 0..chosen.count {
            let slot = most_similar(layout, model, choice)?;
            if layout.instances() >= MAX_INSTANCES || !layout.add(slot) {
                return None;
            }
        }
    }
    Some(())
}

/// The largest theta is the least that is missing: the model is the same.
fn most_similar(layout: &Layout<'_>, model: usize, choice: usize) -> Option<Slot> {
    let slots = layout.nodes().map(|node| Slot {
        model,
        node,
        choice,
    });
    let with = slots.map(|slot| (slot, layout.missing(model, slot.node)));
    let fitting = with.filter(|&(slot, missing)| {
        let lacks = layout.lacks(slot, missing);
        lacks.is_some_and(|lacks| lacks.is_none())
    });
    let best = fitting.min_by_key(|&(slot, missing)| {
        let free = layout.free(slot.node).memory_bytes;
        (missing, std::cmp::Reverse(free), slot.node)
    });
    best.map(|(slot, _)| slot)
}
