//! Objective function of the selection: memory, and optionally CPU.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::configuration::Configuration;
use crate::error::FieldError;

/// Maximum alpha: 1 TiB per millicore.
pub const MAX_ALPHA: u64 = 1 << 40;

/// Memory of an instance that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryTerm {
    /// All memory, as in objective (1).
    #[default]
    Whole,
    /// Only private memory, on the node and on a GPU: the cost of one more instance on a node that has the tensors.
    Own,
}

/// Objective function `m + alpha c` (Tetris 3.2, last paragraph on DTS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedWeights")]
pub struct Weights {
    alpha_bytes_per_millicore: u64,
    memory: MemoryTerm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedWeights {
    #[serde(default)]
    alpha_bytes_per_millicore: u64,
    #[serde(default)]
    memory: MemoryTerm,
}

impl Weights {
    /// All memory and no CPU: objective (1).
    pub const PAPER: Self = Self {
        alpha_bytes_per_millicore: 0,
        memory: MemoryTerm::Whole,
    };

    /// Creates weights with alpha in bytes per millicore, from 0 to 1 TiB.
    ///
    /// # Errors
    ///
    /// Fails if alpha is out of range.
    pub fn try_new(alpha_bytes_per_millicore: u64, memory: MemoryTerm) -> Result<Self, FieldError> {
        let field = "alpha_bytes_per_millicore";
        FieldError::check(field, alpha_bytes_per_millicore, 0, MAX_ALPHA)?;
        Ok(Self {
            alpha_bytes_per_millicore,
            memory,
        })
    }

    /// Returns weights with the same alpha that count `memory`.
    pub const fn counting(self, memory: MemoryTerm) -> Self {
        Self { memory, ..self }
    }

    /// Cost of CPU (alpha), in bytes per millicore.
    pub const fn alpha_bytes_per_millicore(self) -> u64 {
        self.alpha_bytes_per_millicore
    }

    /// Cost of one instance, in bytes: at least 1, below 2^64.
    pub const fn of(self, configuration: &Configuration) -> u64 {
        let memory = match self.memory {
            MemoryTerm::Whole => configuration.memory_bytes(),
            MemoryTerm::Own => configuration.private_bytes(),
        };
        // At most 2^52 + 2^40 * 10^7: no saturation.
        let cpu = self.alpha_bytes_per_millicore;
        memory.saturating_add(cpu.saturating_mul(configuration.cpu_millis()))
    }

    /// Orders by normalized throughput `b p / (l (m + alpha c))`, descending (Algorithm 1, line 2);
    /// with the measured rate in place of `b p / l` where there is one.
    ///
    /// It compares the quotients by cross-multiplication. The paper does not define the order of
    /// ties: here the cheaper instance comes first, then the one with less CPU.
    pub(crate) fn by_normalized_throughput(self, a: &Configuration, b: &Configuration) -> Ordering {
        // 2^32 * 2^32 * 2^64 of cost fit into 2^128.
        let side = |one: &Configuration, other: &Configuration| {
            let ((requests, _), (_, per)) = (one.rate_fraction(), other.rate_fraction());
            u128::from(requests) * u128::from(per) * u128::from(self.of(other))
        };
        side(b, a)
            .cmp(&side(a, b))
            .then_with(|| self.of(a).cmp(&self.of(b)))
            .then_with(|| a.cpu_millis().cmp(&b.cpu_millis()))
            .then_with(|| a.batch().cmp(&b.batch()))
            .then_with(|| a.concurrency().cmp(&b.concurrency()))
    }
}

impl TryFrom<UncheckedWeights> for Weights {
    type Error = FieldError;

    fn try_from(unchecked: UncheckedWeights) -> Result<Self, FieldError> {
        Self::try_new(unchecked.alpha_bytes_per_millicore, unchecked.memory)
    }
}
