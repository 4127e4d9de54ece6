//! Instances of one function outside of a plan.

use std::collections::BTreeMap;

use super::FunctionModel;
use super::grow::Member;
use super::usable::Usable;
use crate::cost::{MemoryTerm, Weights};
use crate::exact::solve;
use crate::rate::Rate;
use crate::selection::Selection;

/// The cheapest instances, at most `most`: for all of the member's load, or else for the least that will do; where that
/// would be too many as well, instances of the fastest configuration.
pub(super) fn choose(model: &FunctionModel, member: &Member, most: u32) -> BTreeMap<usize, u32> {
    let usable = &member.usable;
    let loads = [member.load, member.least];
    let mut selections = loads.iter().map(|&load| cheapest(model, usable, load));
    let fits = selections.find(|selection| selection.instances() <= most.into());
    let Some(selection) = fits else {
        return fastest(usable, member.least, most);
    };
    let counts = selection.choices.iter().filter_map(|choice| {
        let (at, _) = usable.all.get(choice.configuration)?;
        Some((*at, u32::try_from(choice.count).ok()?))
    });
    counts.collect()
}

fn cheapest(model: &FunctionModel, usable: &Usable, load: Rate) -> Selection {
    let alpha = model.alpha_bytes_per_millicore;
    let weights = Weights::try_new(alpha, MemoryTerm::Own).unwrap_or_default();
    let solution = usable
        .profile()
        .and_then(|profile| solve(&profile, model.slo, load, weights).ok());
    solution
        .map(|solution| solution.selection)
        .unwrap_or_default()
}

fn fastest(usable: &Usable, load: Rate, most: u32) -> BTreeMap<usize, u32> {
    let count = usable.fastest().map(|(at, fastest)| {
        let wanted = load.micro_rps().div_ceil(fastest.rate().micro_rps().max(1));
        (at, u32::try_from(wanted).unwrap_or(u32::MAX).min(most))
    });
    count.into_iter().filter(|(_, count)| *count > 0).collect()
}
