//! Percentile of the latency that a function's objective is about.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A measured percentile of the latency.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub enum Percentile {
    /// The median.
    P50,
    /// The 90th percentile.
    P90,
    /// The 95th percentile.
    #[default]
    P95,
    /// The 99th percentile.
    P99,
}

/// A percentile that profiles do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("found {0}, expected 50, 90, 95 or 99")]
pub struct PercentileError(u64);

impl TryFrom<u64> for Percentile {
    type Error = PercentileError;

    fn try_from(percent: u64) -> Result<Self, PercentileError> {
        match percent {
            50 => Ok(Self::P50),
            90 => Ok(Self::P90),
            95 => Ok(Self::P95),
            99 => Ok(Self::P99),
            other => Err(PercentileError(other)),
        }
    }
}

impl From<Percentile> for u64 {
    fn from(percentile: Percentile) -> Self {
        match percentile {
            Percentile::P50 => 50,
            Percentile::P90 => 90,
            Percentile::P95 => 95,
            Percentile::P99 => 99,
        }
    }
}

impl JsonSchema for Percentile {
    fn schema_name() -> Cow<'static, str> {
        "Percentile".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "enum": [50, 90, 95, 99]})
    }
}
