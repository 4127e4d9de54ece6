//! Alternatives to the plan: the published algorithm, and instances that share nothing.

use std::collections::BTreeSet;

use tetris_scaler_core::{
    Configuration, Demand, FieldError, GpuRoom, MemoryTerm, Node, NodeView, PlacementError,
    PlacementProblem, Rate, SloTooTight, Weights, place_as_published, solve,
};

use super::figures::{Figures, Measured};
use super::fit::Fit;
use super::functions::Function;
use super::problem::Problem;
use crate::state::Key;

/// The reason that there is no such plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoPlan {
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Weights(#[from] FieldError),
    #[error("{function}: {source}")]
    Selection { function: Key, source: SloTooTight },
}

/// Plans by the published algorithm: DTS for each function alone, and each instance on the most
/// similar node with room. It starts from empty nodes, and chooses among configurations that fit on
/// some node.
pub(super) fn published(problem: &Problem, needed: &[Rate]) -> Result<Figures, NoPlan> {
    let functions = &problem.functions;
    let stores = functions.iter().map(|function| &*function.model.store);
    let stores: Vec<&str> = stores.collect::<BTreeSet<_>>().into_iter().collect();
    let busy = functions.iter().zip(needed).enumerate();
    let busy: Vec<(usize, Demand)> = busy
        .filter(|(_, (_, needed))| !needed.is_zero())
        .map(|(index, (function, needed))| {
            let store = stores.binary_search(&&*function.model.store);
            let store = store.unwrap_or(usize::MAX);
            (index, demand(problem, function, store, *needed))
        })
        .collect();
    let demands: Vec<Demand> = busy.iter().map(|(_, demand)| demand.clone()).collect();
    let nodes: Vec<Node> = problem
        .cluster
        .nodes
        .iter()
        .map(|node| self::node(node, &stores))
        .collect();
    let mut placed = place_as_published(&PlacementProblem {
        demands: &demands,
        nodes: &nodes,
        inventory: &problem.cluster.inventory,
        current: &[],
        fixed: &[],
        start_cost_bytes: 0,
        max_trials: 0,
    })?
    .placed;
    for entry in &mut placed {
        entry.model = busy
            .get(entry.model)
            .map_or(usize::MAX, |(index, _)| *index);
    }
    let measured = Measured {
        functions,
        inventory: &problem.cluster.inventory,
        node_name: &|index| problem.node_name(index),
        configuration: |function: usize, index: usize| {
            let of_function = busy.iter().find(|(entry, _)| *entry == function);
            of_function?.1.profile.configurations().get(index)
        },
    };
    Ok(measured.all(&placed))
}

/// Plans the least memory with a private copy of the model per instance, wherever it runs: the
/// exact solution of the paper's integer program.
pub(super) fn unshared(problem: &Problem, needed: &[Rate]) -> Result<Figures, NoPlan> {
    let mut sum = Figures::default();
    for (function, needed) in problem.functions.iter().zip(needed) {
        let model = &function.model;
        let weights = Weights::try_new(model.alpha_bytes_per_millicore, MemoryTerm::Whole);
        let profile = Fit::new(problem, function).profile();
        let solution = solve(&profile, model.slo, *needed, weights?).map_err(|source| {
            let function = function.key.clone();
            NoPlan::Selection { function, source }
        })?;
        let bytes = solution.selection.choices.iter().map(|choice| {
            let configuration = profile.configurations().get(choice.configuration);
            u128::from(configuration.map_or(0, Configuration::private_bytes))
                * u128::from(choice.count)
        });
        let private_bytes: u128 = bytes.sum();
        sum.instances = sum.instances.saturating_add(solution.selection.instances());
        sum.cpu_millis += solution.selection.cpu_millis;
        sum.own_bytes += private_bytes;
        sum.tensor_bytes += solution
            .selection
            .memory_bytes
            .saturating_sub(private_bytes);
        sum.cost += solution.selection.cost;
    }
    Ok(sum)
}

fn demand(problem: &Problem, function: &Function, store: usize, load: Rate) -> Demand {
    let model = &function.model;
    Demand {
        name: model.name.clone(),
        profile: Fit::new(problem, function).profile(),
        slo: model.slo,
        load,
        tensors: model.tensors.clone(),
        store,
        alpha_bytes_per_millicore: model.alpha_bytes_per_millicore,
    }
}

fn node(node: &NodeView, stores: &[&str]) -> Node {
    let rooms = node.stores.iter().filter_map(|(store, room)| {
        let number = stores.binary_search(&store.as_str()).ok()?;
        Some((number, *room))
    });
    Node {
        name: node.name.clone(),
        free: node.free,
        tensor_bytes: node.tensor_bytes,
        stores: rooms.collect(),
        gpus: node.gpus.iter().map(GpuRoom::of).collect(),
        gpus_only: node.gpus_only,
        accepts_new: node.accepts_new,
    }
}
