//! Instances of one function outside of a plan.

use std::collections::BTreeMap;

use super::Model;
use super::usable::Usable;
use crate::cost::{MemoryTerm, Weights};
use crate::exact::solve;
use crate::rate::Rate;

/// The cheapest instances for `load`, at most `most`: of the fastest configuration where it would be more.
pub(super) fn choose(
    model: &Model,
    usable: &Usable,
    load: Rate,
    most: u32,
) -> BTreeMap<usize, u32> {
    let alpha = model.alpha_bytes_per_millicore;
    let weights = Weights::try_new(alpha, MemoryTerm::Own).unwrap_or_default();
    let solution = usable
        .profile()
        .and_then(|profile| solve(&profile, model.slo, load, weights).ok());
    let selection = solution
        .map(|solution| solution.selection)
        .unwrap_or_default();
    if selection.instances() > most.into() {
        return fastest(usable, load, most);
    }
    let counts = selection.choices.iter().filter_map(|choice| {
        let (at, _) = usable.all.get(choice.configuration)?;
        Some((*at, u32::try_from(choice.count).ok()?))
    });
    counts.collect()
}

fn fastest(usable: &Usable, load: Rate, most: u32) -> BTreeMap<usize, u32> {
    let count = usable.fastest().map(|(at, one)| {
        let wanted = load.micro_rps().div_ceil(one.rate().micro_rps().max(1));
        (at, u32::try_from(wanted).unwrap_or(u32::MAX).min(most))
    });
    count.into_iter().filter(|(_, count)| *count > 0).collect()
}
