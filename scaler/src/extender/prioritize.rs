//! Scores of nodes for a pod.

use tetris_scaler_core::{Similarity, Spread};

use super::gpus::Gpus;
use super::nodes::{Form, by_name};
use super::wire::{HostPriority, MAX_SCORE};
use crate::state::{FunctionState, Snapshot};

/// Returns a score for each node, in order.
pub fn prioritize(
    snapshot: &Snapshot,
    wanted: Option<&FunctionState>,
    spread: Spread,
    nodes: &Form,
) -> Vec<HostPriority> {
    let Some(function) = wanted else {
        return with_scores(nodes, |_| 0);
    };
    let tensors = &function.model.tensors;
    let thetas = snapshot.inventory.thetas(tensors);
    let known = by_name(snapshot);
    let gpus = Gpus::new(snapshot, function);
    let nothing = Similarity {
        resident_bytes: 0,
        total_bytes: tensors.total_bytes(),
    };
    with_scores(nodes, |node| {
        let theta = thetas.of(node).unwrap_or(nothing);
        let theta = match &gpus {
            Some(gpus) => theta.with(gpus.similarity(node)),
            None => theta,
        };
        let room = known.get(node).map(|node| (node.free, node.all));
        let (free, all) = room.unwrap_or_default();
        out_of_ten(spread.score(theta, free, all))
    })
}

fn with_scores(nodes: &Form, score: impl Fn(&str) -> i64) -> Vec<HostPriority> {
    let scored = nodes.names().map(|node| HostPriority {
        host: node.to_owned(),
        score: score(node),
    });
    scored.collect()
}

/// Rounds thousandths to the nearest tenth.
fn out_of_ten(permille: u32) -> i64 {
    (i64::from(permille) * MAX_SCORE + 500) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousandths_are_rounded_to_tenths() {
        let scores = [0, 49, 50, 949, 950, 1_000].map(out_of_ten);
        assert_eq!(scores, [0, 0, 1, 9, 10, 10]);
    }
}
