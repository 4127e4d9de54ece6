//! What no placement can go below.

use super::atoms::Atom;
use super::ground::{Choice, Ground};
use crate::score::Resources;

/// The optima for own memory, and each needed tensor on as many nodes as its models take.
pub(super) fn lower_bound(ground: &Ground<'_>) -> u128 {
    let own = ground.cheapest.iter().map(|solution| solution.lower_bound);
    let cpu = |free: &Resources| free.cpu_millis;
    let memory = |free: &Resources| free.memory_bytes;
    let tensors = ground.atoms.iter().filter_map(|atom| {
        let nodes = nodes_needed(ground, atom, cpu).max(nodes_needed(ground, atom, memory));
        let mut missing = atom.missing.clone();
        missing.sort_unstable();
        let least = missing.into_iter().take(nodes).map(u128::from);
        (nodes > 0).then(|| least.fold(0, u128::saturating_add))
    });
    own.chain(tensors).fold(0, u128::saturating_add)
}

/// On how many nodes the atom's models must run: so many that, the largest first, their free `resource`
/// comes to what the models take. None if there is no load.
fn nodes_needed(ground: &Ground<'_>, atom: &Atom, resource: impl Fn(&Resources) -> u64) -> usize {
    let takes = atom
        .models
        .iter()
        .map(|&model| least(ground, model, &resource));
    let mut rest = takes.fold(0, u128::saturating_add);
    let mut free: Vec<u64> = ground
        .problem
        .nodes
        .iter()
        .map(|node| resource(&node.free))
        .collect();
    free.sort_unstable();
    let mut nodes = 0_usize;
    while rest > 0 {
        let Some(largest) = free.pop() else {
            break;
        };
        rest = rest.saturating_sub(largest.into());
        nodes = nodes.saturating_add(1);
    }
    nodes
}

/// The least of `resource` that carries the model's load, if instances could be divided.
fn least(ground: &Ground<'_>, model: usize, resource: &impl Fn(&Resources) -> u64) -> u128 {
    let load = u128::from(ground.load(model));
    let choices = ground.choices.get(model).into_iter().flatten();
    let each = choices.map(|choice: &Choice| {
        let amount = u128::from(resource(&choice.needs)).saturating_mul(load);
        amount.div_ceil(u128::from(choice.rate))
    });
    each.min().unwrap_or(0)
}
