//! Defaults of the operator, for all programs that decide as it does.

use serde::{Deserialize, Serialize};

use crate::scale_in::ScaleInConfig;

/// Times and weights with which the operator decides where no one sets others. The command line and
/// the resources of `tetris-scaler` take their defaults from here, and so does the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OperatorDefaults {
    /// Longest interval between two decisions, in seconds.
    pub interval_seconds: u64,
    /// Time for which the load must stay low before instances are released, in seconds.
    pub window_seconds: u64,
    /// Steady time after which instances may be replaced to save memory, in seconds.
    pub consolidate_after_seconds: u64,
    /// Cost of a millicore (alpha), in bytes.
    pub alpha_bytes_per_millicore: u64,
    /// Headroom of scaling out and in.
    pub scale_in: ScaleInConfig,
}

impl OperatorDefaults {
    /// The defaults, as a constant.
    pub const ALL: Self = Self {
        interval_seconds: 5,
        window_seconds: 300,
        consolidate_after_seconds: 600,
        alpha_bytes_per_millicore: 0,
        scale_in: ScaleInConfig::DEFAULT,
    };
}

impl Default for OperatorDefaults {
    fn default() -> Self {
        Self::ALL
    }
}
