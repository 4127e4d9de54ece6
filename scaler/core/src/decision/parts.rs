//! Parts of a plan for more functions than one problem takes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use tetris_store_layout::ObjectId;

use super::View;
use crate::numbered::Numbered as _;

/// Splits functions into parts of at most `most`, at least one. Functions that share tensors, with each
/// other or through a third, are in one part if they fit.
pub(super) fn parts(
    view: &View<'_>,
    functions: impl IntoIterator<Item = usize>,
    most: usize,
) -> Vec<Vec<usize>> {
    let functions: Vec<usize> = functions.into_iter().collect();
    let most = most.max(1);
    if functions.len() <= most {
        return vec![functions];
    }
    let mut families = families(view, &functions);
    families.sort_by_key(|family| (Reverse(family.len()), family.first().copied()));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for piece in families.iter().flat_map(|family| family.chunks(most)) {
        let mut open = parts.iter_mut();
        let fits = |part: &&mut Vec<usize>| part.len().saturating_add(piece.len()) <= most;
        match open.find(fits) {
            Some(part) => part.extend_from_slice(piece),
            None => parts.push(piece.to_vec()),
        }
    }
    parts
}

/// Groups functions that share tensors, each group in the order of `functions`.
fn families(view: &View<'_>, functions: &[usize]) -> Vec<Vec<usize>> {
    let mut parents: Vec<usize> = (0..functions.len()).collect();
    let mut first_with: HashMap<&ObjectId, usize> = HashMap::new();
    for (at, &function) in functions.iter().enumerate() {
        let model = view.functions.get(function).map(|function| &function.model);
        let objects = model.map_or(&[][..], |model| model.tensors.objects());
        for (id, _) in objects {
            let other = *first_with.entry(id).or_insert(at);
            let (a, b) = (root(&mut parents, at), root(&mut parents, other));
            *parents.at_mut(a.max(b)) = a.min(b);
        }
    }
    let mut families: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, &function) in functions.iter().enumerate() {
        let family = families.entry(root(&mut parents, at)).or_default();
        family.push(function);
    }
    families.into_values().collect()
}

/// Returns the first member of a family, and shortens the way to it.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while *parents.at(at) != at {
        let next = *parents.at(*parents.at(at));
        *parents.at_mut(at) = next;
        at = next;
    }
    at
}
