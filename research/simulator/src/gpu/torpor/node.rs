//! A node, its functions and their requests.

use std::collections::BTreeMap;

use serde::Serialize;
use tetris_scaler_dispatch::RequestId;
use tetris_scaler_dispatch::gpu::{Gpu, GpuId, GpuModel, GpuRequest, ModelId, Topology};

use super::arrivals::Arrivals;
use super::kinds::{KINDS, Kind};
use super::rates::Rates;

/// Memory of a V100, in megabytes, all of which containers and NonSwap have.
pub(super) const WHOLE_MB: u64 = 32_000;
/// Time between two requests that warm functions up, and after the last of them, in microseconds: the
/// authors' sender waits as long.
const WARM_UP_US: (u64, u64) = (50_000, 5_000_000);
/// Pairs of GPUs with a fast link, by the authors' `controller.hpp`; all others have a slow one.
const FAST: [(u32, u32); 3] = [(0, 3), (1, 2), (2, 3)];

/// Links between the GPUs of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// Two pairs, each at one switch. Links are fast between GPUs 0 and 3, 1 and 2, 2 and 3, and slow
    /// between all others, as in the authors' matrix; 48 and 24 GB/s are assumed.
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
    /// Rates of the functions.
    pub rates: Rates,
    /// Kind of arrivals.
    pub arrivals: Arrivals,
    /// Number of GPUs.
    pub gpus: u32,
    /// Device memory of a GPU for models, in megabytes.
    pub memory_mb: u64,
    /// Links.
    pub links: Links,
    /// Part of a model's bytes that all functions of its kind share, in thousandths.
    pub shared_permille: u64,
    /// Number of native containers that a GPU holds; nothing to go by their memory.
    pub native_per_gpu: Option<u64>,
    /// Lifespan of an idle container of INFless-KA: this percentile of the times between its requests.
    pub lifespan_percent: u64,
    /// SLO of vision models and of Bert-qa, in microseconds.
    pub slo_us: [u64; 2],
    /// Length in seconds, behind a request for each function that warms it up and does not count.
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
                    let fast = FAST.contains(&(from.min(to), from.max(to)));
                    let gb = if fast { 48 } else { 24 };
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

    /// Memory of a GPU that a native container takes, in megabytes.
    pub(super) fn container_mb(&self, kind: &Kind) -> u64 {
        let by_count = self
            .native_per_gpu
            .and_then(|all| WHOLE_MB.checked_div(all));
        by_count.unwrap_or(kind.native_mb)
    }

    /// Time at which functions are warm, and requests begin to count, in microseconds.
    pub(super) fn warm_us(&self) -> u64 {
        let (between_us, after_us) = WARM_UP_US;
        u64::from(self.functions) * between_us + after_us
    }

    /// Requests in the order of their arrival, those that warm functions up first.
    pub fn requests(&self) -> Vec<GpuRequest> {
        let rates = self.rates.of(self.functions, self.seed);
        let (between_us, _) = WARM_UP_US;
        let warm_up =
            (0..self.functions).map(|function| (u64::from(function) * between_us, function));
        let run = self.arrivals.requests(&rates, self.seconds, self.seed);
        let run = run
            .into_iter()
            .map(|(at_us, function)| (self.warm_us() + at_us, function));
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
        warm_up.chain(run).enumerate().map(request).collect()
    }
}
