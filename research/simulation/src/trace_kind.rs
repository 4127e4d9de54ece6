//! Kinds of traces: the three in the literature on serverless inference.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Distribution of requests over time (Shahrad et al., ATC 2020, section 3; Tetris, figure 8). The modules that
/// generate traces say what rates they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceKind {
    /// A constant rate.
    Stable,
    /// A rate that repeats: a timer, or day and night.
    Periodic,
    /// Quiet, with bursts at random times.
    Bursty,
}

impl TraceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Stable, Self::Periodic, Self::Bursty];
}

impl fmt::Display for TraceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Stable => "stable",
            Self::Periodic => "periodic",
            Self::Bursty => "bursty",
        })
    }
}
