//! A node, its functions and their requests.

use std::collections::BTreeMap;

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::gpu::{Gpu, GpuId, GpuModel, GpuRequest, ModelId, Topology};
use tetris_simulation::Rng;

use crate::dispatch::poisson::Poisson;

use super::kinds::{KINDS, Kind};

/// Links between the GPUs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// Two pairs, each at one switch; links of 48 GB/s in a pair and 24 GB/s across (assumed).
    Pairs,
    /// Two pairs without links between GPUs.
    NoPeers,
    /// All GPUs at one switch, with the links of `Pairs`.
    OneSwitch,
    /// A switch for each GPU, with the links of `Pairs`.
    OwnSwitches,
}

impl Links {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::NoPeers => "no links between GPUs",
            Self::OneSwitch => "one switch",
            Self::OwnSwitches => "own switches",
        }
    }
}

/// Functions on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSetting {
    /// Number of functions.
    pub functions: u32,
    /// Kinds of their models, in turns.
    pub kinds: Vec<usize>,
    /// Requests per minute of a function: one of these.
    pub per_minute: Vec<u64>,
    /// Number of GPUs.
    pub gpus: u32,
    /// Device memory of a GPU for models, in megabytes.
    pub memory_mb: u64,
    /// Links.
    pub links: Links,
    /// Part of a model's bytes that all functions of its kind share, in thousandths.
    pub shared_permille: u64,
    /// Lifespan of an idle container of INFless-KA: this percentile of the times between its requests.
    pub lifespan_percent: u64,
    /// SLO of vision models and of Bert-qa, in microseconds.
    pub slo_us: [u64; 2],
    /// Length in seconds. The first tenth does not count.
    pub seconds: u64,
    /// Seed of rates and arrivals.
    pub seed: u64,
}

impl NodeSetting {
    pub(super) fn kind(&self, function: u32) -> Option<(usize, &'static Kind)> {
        let turn = (function as usize).checked_rem(self.kinds.len())?;
        let &kind = self.kinds.get(turn)?;
        Some((kind, KINDS.get(kind)?))
    }

    /// GPUs and their links.
    pub fn topology(&self) -> Topology {
        let gpu = |number| Gpu {
            memory_bytes: self.memory_mb * 1_000_000,
            node: 0,
            switch: match self.links {
                Links::Pairs | Links::NoPeers => number / 2,
                Links::OneSwitch => 0,
                Links::OwnSwitches => number,
            },
        };
        let mut peers = BTreeMap::new();
        if self.links != Links::NoPeers {
            for from in 0..self.gpus {
                for to in (0..self.gpus).filter(|&to| to != from) {
                    let gb = if from / 2 == to / 2 { 48 } else { 24 };
                    peers.insert((GpuId(from), GpuId(to)), gb * 1_000_000_000);
                }
            }
        }
        Topology {
            gpus: (0..self.gpus).map(gpu).collect(),
            host_bytes_per_s: 12_000_000_000,
            peers,
        }
    }

    /// Model of each function.
    pub fn models(&self) -> Vec<GpuModel> {
        (0..self.functions)
            .filter_map(|function| {
                let (number, kind) = self.kind(function)?;
                Some(kind.model(number, function, self.shared_permille))
            })
            .collect()
    }

    /// Requests in the order of their arrival.
    pub fn requests(&self) -> Vec<GpuRequest> {
        let end_us = self.seconds * 1_000_000;
        let mut all: Vec<(u64, u32)> = Vec::new();
        for function in 0..self.functions {
            let mut rng = Rng::new(self.seed, 1_000 + u64::from(function));
            let at = rng.below(self.per_minute.len() as u64) as usize;
            let per_minute = self.per_minute.get(at).copied().unwrap_or(1);
            let rate = Rate::from_micro_rps(per_minute * 1_000_000 / 60);
            let arrivals = Poisson::new(rate, rng).take_while(|&at| at < end_us);
            all.extend(arrivals.map(|at| (at, function)));
        }
        all.sort_unstable();
        let request = |(id, (arrived_us, function)): (usize, (u64, u32))| {
            let bert = self.kind(function).is_some_and(|(_, kind)| kind.is_bert);
            let [vision, text] = self.slo_us;
            GpuRequest {
                id: RequestId(id as u64),
                function,
                model: ModelId(function),
                arrived_us,
                deadline_us: Some(arrived_us + if bert { text } else { vision }),
            }
        };
        all.into_iter().enumerate().map(request).collect()
    }
}
