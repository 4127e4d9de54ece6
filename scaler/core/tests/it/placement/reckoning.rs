//! Independent calculation of a placement's cost and needs, from tensors instead of atoms.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{ModelTensors, Placed, Similarity};
use tetris_store_layout::ObjectId;

use crate::placement::scenario::Scenario;

/// Returns the cost in bytes, or the reason the placement is not allowed.
pub fn reckon(scenario: &Scenario, placed: &[Placed]) -> Result<u128, String> {
    let mut cost = 0;
    for (at, node) in scenario.nodes.iter().enumerate() {
        let here: Vec<&Placed> = placed
            .iter()
            .filter(|entry| entry.node == at && entry.count > 0)
            .collect();
        cost += on_gpus(scenario, at, &here)?;
        let tensors = u128::from(missing(scenario, at, &here));
        for (&store, &room) in &node.stores {
            let of_store = |one: &&&Placed| scenario.demands[one.model].store == store;
            let here: Vec<&Placed> = here.iter().filter(of_store).copied().collect();
            if missing(scenario, at, &here) > room {
                return Err(format!("store {store} of {} has no room", node.name));
            }
        }
        let (mut cpu, mut memory) = (0_u128, 0_u128);
        for placed in &here {
            let configuration =
                scenario.demands[placed.model].profile.configurations()[placed.configuration];
            let millis = u128::from(configuration.cpu_millis()) * u128::from(placed.count);
            let alpha = scenario.demands[placed.model].alpha_bytes_per_millicore;
            cost += u128::from(alpha) * millis;
            cpu += millis;
            memory += u128::from(configuration.own_bytes()) * u128::from(placed.count);
        }
        // Tensors come out of the room for tensors, or out of memory.
        let (pool, both) = match node.tensor_bytes {
            Some(pool) => (u128::from(pool), memory),
            None => (u128::MAX, memory + tensors),
        };
        if tensors > pool || both > node.free.memory_bytes.into() {
            return Err(format!(
                "{} gives {memory} and {tensors} of tensors",
                node.name
            ));
        }
        memory += tensors;
        if !node.accepts_new && started(scenario, placed, Some(at)) > 0 {
            return Err(format!("{} takes nothing new", node.name));
        }
        if cpu > node.free.cpu_millis.into() {
            return Err(format!("{} gives {cpu}", node.name));
        }
        cost += memory;
    }
    for (model, demand) in scenario.demands.iter().enumerate() {
        let mut rate = 0;
        for entry in placed.iter().filter(|entry| entry.model == model) {
            let configuration = demand.profile.configurations()[entry.configuration];
            if entry.count > 0 && !configuration.meets(demand.slo) {
                return Err(format!("{} breaks its objective", demand.name));
            }
            rate += u128::from(configuration.rate().micro_rps()) * u128::from(entry.count);
        }
        if rate < demand.load.micro_rps().into() {
            return Err(format!("{} carries {rate}", demand.name));
        }
    }
    Ok(cost + u128::from(scenario.start_cost) * u128::from(started(scenario, placed, None)))
}

/// Returns the cost of what is on the GPUs of a node: private memory, and the tensors that are not in
/// device memory.
fn on_gpus(scenario: &Scenario, node: usize, here: &[&Placed]) -> Result<u128, String> {
    let mut cost = 0;
    for placed in here {
        let configuration =
            scenario.demands[placed.model].profile.configurations()[placed.configuration];
        let of_type = placed.gpu.map(|gpu| scenario.nodes[node].gpus[gpu].kind);
        if configuration.gpu().map(|gpu| gpu.kind) != of_type {
            return Err(format!("{placed:?} is on a GPU of type {of_type:?}"));
        }
    }
    for (at, gpu) in scenario.nodes[node].gpus.iter().enumerate() {
        let here = here.iter().filter(|placed| placed.gpu == Some(at));
        let (mut own, mut share, mut tensors) = (0, 0, BTreeSet::new());
        for placed in here {
            let demand = &scenario.demands[placed.model];
            let needs = demand.profile.configurations()[placed.configuration];
            let needs = needs.gpu().unwrap();
            own += u128::from(needs.own_bytes) * u128::from(placed.count);
            share += u64::from(needs.share_permille) * u64::from(placed.count);
            tensors.extend(demand.tensors.objects().iter().copied());
        }
        let resident = &scenario.on_gpus[node][at];
        let bytes = |all: bool| -> u128 {
            let counted = tensors
                .iter()
                .filter(|(id, _)| all || !resident.contains(id));
            counted.map(|(_, bytes)| u128::from(*bytes)).sum()
        };
        let room = (
            u128::from(gpu.tensor_bytes),
            u128::from(gpu.own_bytes),
            1_000,
        );
        if bytes(true) > room.0 || own > room.1 || share > room.2 {
            return Err(format!("GPU {at} of node {node} gives more than it has"));
        }
        cost += own + bytes(false);
    }
    Ok(cost)
}

/// Returns the bytes of the union of the models' tensors that the node lacks.
fn missing(scenario: &Scenario, node: usize, here: &[&Placed]) -> u64 {
    let tensors: BTreeSet<(ObjectId, u64)> = here
        .iter()
        .flat_map(|placed| scenario.demands[placed.model].tensors.objects())
        .copied()
        .collect();
    let union = ModelTensors::try_new(tensors).unwrap();
    let theta = scenario.inventory.theta(&union, &scenario.nodes[node].name);
    theta.map_or(union.total_bytes(), Similarity::missing_bytes)
}

/// Returns the number of instances beyond the running ones, on one node or on all.
pub fn started(scenario: &Scenario, placed: &[Placed], node: Option<usize>) -> u64 {
    let count = |list: &[Placed]| {
        let mut counts: BTreeMap<(usize, usize, usize, Option<usize>), u64> = BTreeMap::new();
        for item in list {
            *counts
                .entry((item.model, item.node, item.configuration, item.gpu))
                .or_default() += u64::from(item.count);
        }
        counts
    };
    let running = count(&scenario.current);
    let beyond = count(placed);
    let starts = beyond
        .iter()
        .filter(|(slot, _)| node.is_none_or(|node| slot.1 == node));
    starts
        .map(|(slot, count)| count.saturating_sub(running.get(slot).copied().unwrap_or(0)))
        .sum()
}
