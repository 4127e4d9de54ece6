//! Times of starts and inferences, from the paper's own measurements.

use serde::Serialize;
use tetris_scaler_dispatch::gpu::transfer_us;

/// A base model of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Base {
    /// Llama3-8B.
    #[serde(rename = "Llama3-8B")]
    Llama3,
    /// Llama2-13B.
    #[serde(rename = "Llama2-13B")]
    Llama2,
}

/// Times and bytes of one base model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BaseCosts {
    /// Bytes of the weights.
    pub bytes: u64,
    /// Time of a warm inference until the first token, in nanoseconds for each token of the input.
    pub prompt_ns: u64,
    /// Time to initialize an adapter, in microseconds.
    pub adapter_us: u64,
    /// Time of each token after the first, in microseconds.
    pub decode_us: u64,
}

/// Times and bytes of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TidalCosts {
    /// Bandwidth from the host to each GPU, in bytes per second.
    pub host_bytes_per_s: u64,
    /// Time that the first inference of a process spends on code of kernels, in microseconds.
    pub kernels_us: u64,
    /// Llama3-8B.
    pub llama3: BaseCosts,
    /// Llama2-13B.
    pub llama2: BaseCosts,
}

impl TidalCosts {
    /// **From the paper:** bytes (table 1); the bandwidth (figure 17: 632 ms for 15.7 GB); cold
    /// kernels (2.3). Llama3-8B with an adapter takes 571 and 927 ms for 2,048 and 4,096 tokens, where
    /// inference dominates (figure 17): 174 us for each token, and 215 ms for the adapter.
    /// Llama2-13B takes 666 ms for 2,048 tokens, since the cold start of figure 1 is 2.74 times as
    /// long and consists of that, the load and the kernels.
    ///
    /// **Assumed:** times grow linearly with the input. The adapter of Llama2-13B takes longer by
    /// the base's bytes. A token after the first reads all weights once at the 768 GB/s of an A6000.
    pub const PAPER: Self = Self {
        host_bytes_per_s: 24_800_000_000,
        kernels_us: 180_000,
        llama3: BaseCosts {
            bytes: 15_700_000_000,
            prompt_ns: (927 - 571) * 1_000_000 / 2_048,
            adapter_us: (2 * 571 - 927) * 1_000,
            decode_us: 15_700_000 / 768,
        },
        llama2: BaseCosts {
            bytes: 24_300_000_000,
            prompt_ns: 666 * 1_000_000 / 2_048,
            adapter_us: (2 * 571 - 927) * 243_000 / 157,
            decode_us: 24_300_000 / 768,
        },
    };

    /// Costs of a base model.
    pub const fn base(&self, base: Base) -> &BaseCosts {
        match base {
            Base::Llama3 => &self.llama3,
            Base::Llama2 => &self.llama2,
        }
    }

    /// Time to load a whole base model, in microseconds.
    pub fn load_us(&self, base: Base) -> u64 {
        transfer_us(self.base(base).bytes, self.host_bytes_per_s)
    }
}
