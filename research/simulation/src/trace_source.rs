//! Origins of requests: a generated kind, or a file.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::TraceKind;
use crate::traces::TraceFormat;

/// Origin of a run's requests, which labels it in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TraceSource {
    /// Generated, of this kind.
    Generated(TraceKind),
    /// From a file in this format.
    File(TraceFormat),
}

impl From<TraceKind> for TraceSource {
    fn from(kind: TraceKind) -> Self {
        Self::Generated(kind)
    }
}

impl fmt::Display for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(kind) => kind.fmt(f),
            Self::File(format) => format.fmt(f),
        }
    }
}
