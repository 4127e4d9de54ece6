//! What no placement can go below.

use super::ground::Ground;

/// The optima for own memory, and each needed tensor where it lacks least.
pub(super) fn lower_bound(ground: &Ground<'_>) -> u128 {
    let own = ground.cheapest.iter().map(|solution| solution.lower_bound);
    let needed = ground.atoms.iter().filter(|atom| {
        let mut models = atom.models.iter();
        models.any(|&model| ground.load(model) > 0)
    });
    let tensors = needed.map(|atom| {
        let least = atom.missing.iter().min();
        u128::from(least.copied().unwrap_or(0))
    });
    own.chain(tensors).fold(0, u128::saturating_add)
}
