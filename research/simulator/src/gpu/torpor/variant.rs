//! Policies of the comparison.

use std::sync::Arc;

use serde::Serialize;
use tetris_gpu_policies::{LALBO3, TorporPrototype, TorporRules};
use tetris_scaler_dispatch::gpu::{GpuPolicy, SharingRules};

/// Longest transfer of a light model, in thousandths of its inference. With it the light models are
/// those of the authors' router: DenseNets, Inception-v3 and EfficientNet.
const LIGHT_PERMILLE: u64 = 800;

/// A policy, or a baseline with early binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Containers bound to GPUs.
    Native,
    /// Containers bound to GPUs, which go after a lifespan without a request.
    InflessKa,
    /// Models bound to GPUs.
    NonSwap,
    /// Requests in their order, any idle GPU, loads from the host, least recently used model out.
    SimpleSwap,
    /// Requests in their order.
    Fifo,
    /// Any idle GPU, loads from the host.
    Random,
    /// Least recently used model out.
    Lru,
    /// The whole of Torpor, with the threshold and the eviction of the authors' prototype.
    Torpor,
    /// Torpor by its paper's text, with the threshold of `tetris_scaler_dispatch`, which late requests
    /// halve.
    TorporHalving,
    /// LALBO3 of GPU-FaaS.
    Lalbo3,
    /// Ours.
    Sharing,
}

impl Variant {
    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "Native",
            Self::InflessKa => "INFless-KA",
            Self::NonSwap => "NonSwap",
            Self::SimpleSwap => "SimpleSwap",
            Self::Fifo => "Torpor-FIFO",
            Self::Random => "Torpor-Random",
            Self::Lru => "Torpor-LRU",
            Self::Torpor => "Torpor",
            Self::TorporHalving => "Torpor-halving",
            Self::Lalbo3 => "LALBO3",
            Self::Sharing => "sharing",
        }
    }

    /// The policy, or nothing for early binding.
    pub(super) fn policy(self) -> Option<Arc<dyn GpuPolicy>> {
        let rules = |by_required_count, avoids_interference, evicts_light_first| TorporRules {
            by_required_count,
            avoids_interference,
            evicts_light_first,
            light_permille: LIGHT_PERMILLE,
            ..TorporRules::default()
        };
        let prototype = |by_threshold, avoids_interference, evicts_light_first| {
            let rules = rules(by_threshold, avoids_interference, evicts_light_first);
            Arc::new(TorporPrototype::new(rules))
        };
        Some(match self {
            Self::Native | Self::InflessKa | Self::NonSwap => return None,
            Self::SimpleSwap => prototype(false, false, false),
            Self::Fifo => prototype(false, true, true),
            Self::Random => prototype(true, false, true),
            Self::Lru => prototype(true, true, false),
            Self::Torpor => prototype(true, true, true),
            Self::TorporHalving => Arc::new(rules(true, true, true)),
            Self::Lalbo3 => Arc::new(LALBO3),
            Self::Sharing => Arc::new(SharingRules::default()),
        })
    }
}
