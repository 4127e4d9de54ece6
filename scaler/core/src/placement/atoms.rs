//! Atoms: tensors that exactly the same models have.

use std::collections::BTreeMap;

use super::input::{Node, PlacementProblem};
use super::outcome::PlacementError;
use crate::inventory::{ModelTensors, Similarity};

/// Tensors that exactly the same models have, with the bytes of them that each node lacks.
#[derive(Debug)]
pub(super) struct Atom {
    /// Indices of the models, ascending.
    pub(super) models: Vec<usize>,
    /// Missing bytes by node.
    pub(super) missing: Vec<u64>,
    /// Bytes on GPUs by node, then by GPU.
    pub(super) on_gpus: Vec<Vec<OnGpu>>,
}

/// Bytes of an atom on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OnGpu {
    /// Room that it takes, unless instances outside of the problem have it there.
    pub(super) room: u64,
    /// Bytes to copy: those that are not in device memory.
    pub(super) copied: u64,
}

/// Splits all tensors by the set of models that have them.
///
/// A node needs an atom once one of its models runs there. There are at most as many atoms as
/// objects, and in practice as families of models: a plan counts dozens of numbers rather than
/// thousands of tensors.
pub(super) fn atoms(problem: &PlacementProblem<'_>) -> Result<Vec<Atom>, PlacementError> {
    let mut owners = BTreeMap::new();
    for (at, demand) in problem.demands.iter().enumerate() {
        for &(id, bytes) in demand.tensors.objects() {
            let (size, models): &mut (u64, Vec<usize>) =
                owners.entry(id).or_insert_with(|| (bytes, Vec::new()));
            if *size != bytes {
                return Err(PlacementError::TwoSizes {
                    model: demand.name.clone(),
                    object: id,
                });
            }
            models.push(at);
        }
    }
    let mut groups: BTreeMap<Vec<usize>, Vec<_>> = BTreeMap::new();
    for (id, (bytes, models)) in owners {
        groups.entry(models).or_default().push((id, bytes));
    }
    let atoms = groups.into_iter().filter_map(|(models, objects)| {
        // Each atom is a part of a model, whose sum fits and whose sizes agree.
        let tensors = ModelTensors::try_new(objects).ok()?;
        Some(Atom {
            models,
            missing: missing(problem, &tensors),
            on_gpus: on_gpus(problem, &tensors),
        })
    });
    Ok(atoms.collect())
}

fn missing(problem: &PlacementProblem<'_>, tensors: &ModelTensors) -> Vec<u64> {
    let thetas = problem.inventory.thetas(tensors);
    let of = |name: &str| {
        let theta = thetas.of(name);
        theta.map_or(tensors.total_bytes(), Similarity::missing_bytes)
    };
    problem.nodes.iter().map(|node| of(&node.name)).collect()
}

fn on_gpus(problem: &PlacementProblem<'_>, tensors: &ModelTensors) -> Vec<Vec<OnGpu>> {
    let of = |node: &Node| {
        let gpus = node.gpus.iter().map(|gpu| {
            let (room, copied) = gpu.of_tensors(tensors);
            OnGpu { room, copied }
        });
        gpus.collect()
    };
    problem.nodes.iter().map(of).collect()
}
