//! Reasons why there is no placement.

use super::input::MAX_INSTANCES;
use super::instance::{ProblemInstance, Slot};
use super::layout::Layout;
use super::outcome::PlacementError;
use super::shortage::Shortage;
use crate::numbered::Numbered as _;
use crate::rate::Rate;

/// Checks that one instance of each model with load fits somewhere alone, and that a plan may have
/// enough instances.
pub(super) fn check_sizes(instance: &ProblemInstance<'_>) -> Result<(), PlacementError> {
    let empty = Layout::new(instance);
    for model in (0..instance.choices.len()).filter(|&model| instance.load(model) > 0) {
        let rates = instance.choices.at(model).iter().map(|choice| choice.rate);
        let fastest = rates.max().unwrap_or(1);
        if instance.load(model).div_ceil(fastest) > MAX_INSTANCES as u64 {
            let model = instance.name(model);
            return Err(PlacementError::TooManyInstances { model });
        }
        let (node, missing) = closest(&empty, model).ok_or(PlacementError::NoNodes)?;
        if !missing.is_none() {
            return Err(PlacementError::NoNodeLargeEnough {
                model: instance.name(model),
                node,
                missing,
            });
        }
    }
    Ok(())
}

/// Describes the shortage of the first failed attempt.
pub(super) fn out_of_room(
    instance: &ProblemInstance<'_>,
    failed: Option<&Layout<'_>>,
) -> PlacementError {
    let empty = Layout::new(instance);
    let layout = failed.unwrap_or(&empty);
    let models = 0..instance.choices.len();
    let model = models
        .max_by_key(|&model| layout.uncovered(model))
        .unwrap_or(0);
    if layout.instances() >= MAX_INSTANCES {
        let model = instance.name(model);
        return PlacementError::TooManyInstances { model };
    }
    let Some((node, missing)) = closest(layout, model) else {
        return PlacementError::NoNodes;
    };
    PlacementError::OutOfRoom {
        model: instance.name(model),
        uncovered: Rate::from_micro_rps(layout.uncovered(model)),
        node,
        missing,
    }
}

/// Returns the node with the smallest shortage for one more instance, and the shortage. It compares
/// shortages by their largest share of the instance's needs. `None` if no node takes new instances.
fn closest(layout: &Layout<'_>, model: usize) -> Option<(String, Shortage)> {
    let instance = layout.instance();
    let choices = 0..instance.choices.at(model).len();
    let slots = choices.flat_map(|choice| {
        layout.nodes().map(move |node| Slot {
            model,
            node,
            choice,
        })
    });
    let lacking = slots.filter_map(|slot| {
        let missing = layout.missing(model, slot.node);
        let lacks = layout.lacks(slot, missing)?;
        let needs = instance.choice(slot).needs;
        let worst = lacks.worst(needs, missing, layout.needs_of_gpu(slot));
        Some((worst, slot.node, lacks))
    });
    let best = lacking
        .min_by_key(|&(worst, node, lacks)| (worst, lacks.cpu_millis, lacks.memory_bytes, node));
    let (_, node, lacks) = best?;
    let node = instance.problem.nodes.at(node);
    Some((node.name.clone(), lacks))
}
