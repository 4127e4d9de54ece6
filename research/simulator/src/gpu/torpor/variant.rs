//! Policies of the comparison.

use std::sync::Arc;

use serde::Serialize;
use tetris_gpu_policies::{LALBO3, TorporRules};
use tetris_scaler_dispatch::gpu::{GpuPolicy, SharingRules};

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
    /// The whole of Torpor.
    Torpor,
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
            Self::Lalbo3 => "LALBO3",
            Self::Sharing => "sharing",
        }
    }

    /// The policy, or nothing for early binding.
    pub(super) fn policy(self) -> Option<Arc<dyn GpuPolicy>> {
        let torpor = |by_required_count, avoids_interference, evicts_light_first| {
            Arc::new(TorporRules {
                by_required_count,
                avoids_interference,
                evicts_light_first,
                ..TorporRules::default()
            })
        };
        Some(match self {
            Self::Native | Self::InflessKa | Self::NonSwap => return None,
            Self::SimpleSwap => torpor(false, false, false),
            Self::Fifo => torpor(false, true, true),
            Self::Random => torpor(true, false, true),
            Self::Lru => torpor(true, true, false),
            Self::Torpor => torpor(true, true, true),
            Self::Lalbo3 => Arc::new(LALBO3),
            Self::Sharing => Arc::new(SharingRules::default()),
        })
    }
}
