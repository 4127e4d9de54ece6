//! INFless as the Tetris paper describes it: batching only, on fragmented resources.
//!
//! Tetris 5.3 explains that INFless takes the most memory: some models gain nothing, as they do not
//! support batching; queuing keeps batches small; and it "prefers to use the fragmented resources
//! spanning over multiple servers for better accommodating the residual load". So this policy takes
//! the largest batch that the load fills within the objective. Among its configurations it takes
//! the one with the highest throughput per CPU, and places it on the node with the least free CPU.

use std::cmp::Ordering;

use tetris_scaler_core::{Configuration, Rate};

use super::photons::too_tight;
use super::{Start, Started, nodes};
use crate::catalog::Function;
use crate::cluster::Cluster;
use crate::error::SimulationError;

/// Starts instances until they carry `residual`, or no instance fits.
pub(super) fn scale_out(
    function: &Function,
    residual: Rate,
    cluster: &mut Cluster,
) -> Result<Started, SimulationError> {
    let order = ranked(function);
    if order.is_empty() && !residual.is_zero() {
        let single = |one: &Configuration| one.concurrency() == 1;
        let reason = too_tight(&function.profile, function.slo, single);
        return Err(super::too_tight(function, reason));
    }
    let mut started = Started::default();
    let mut left = residual;
    while !left.is_zero() {
        let mut filled = order
            .iter()
            .filter(|(_, entry)| fills(function, entry, left));
        let next = filled.find_map(|&(configuration, one)| {
            let node = nodes::fullest(cluster, function, one)?;
            Some((configuration, one, node))
        });
        let Some((configuration, one, node)) = next else {
            started.unplaced += 1;
            break;
        };
        if let Some(loads) = cluster.start(node, function, one)? {
            started.starts.push(Start {
                node,
                configuration,
                loads,
            });
        }
        left = left.minus(one.rate());
    }
    Ok(started)
}

/// Returns single-threaded configurations by batch size, then throughput per CPU, both descending.
fn ranked(function: &Function) -> Vec<(usize, &Configuration)> {
    let feasible = function.profile.feasible(function.slo);
    let mut order: Vec<_> = feasible
        .filter(|(_, entry)| entry.concurrency() == 1)
        .collect();
    order.sort_by(|(_, a), (_, b)| {
        b.batch()
            .cmp(&a.batch())
            .then_with(|| by_throughput_per_cpu(a, b))
    });
    order
}

fn by_throughput_per_cpu(a: &Configuration, b: &Configuration) -> Ordering {
    let side = |one: &Configuration, other: &Configuration| {
        u128::from(one.rate().micro_rps()) * u128::from(other.cpu_millis())
    };
    side(b, a)
        .cmp(&side(a, b))
        .then_with(|| a.cpu_millis().cmp(&b.cpu_millis()))
}

/// Returns true if `load` fills a batch in the time that the objective leaves beside the latency.
fn fills(function: &Function, one: &Configuration, load: Rate) -> bool {
    let wait_us = function.slo.us().saturating_sub(one.latency_us());
    let requests = u128::from(load.micro_rps()) * u128::from(wait_us) / 1_000_000_000_000;
    one.batch() == 1 || requests >= u128::from(one.batch())
}
