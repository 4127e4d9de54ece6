//! Checks of single fields.

use std::collections::HashSet;
use std::net::SocketAddr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tetris_scaler::resources::{FieldProblem, ServedPaths};
use tetris_scaler_core::Slo;

/// Checks a number.
pub(super) fn least(field: &str, found: u64, least: u64) -> Result<(), FieldProblem> {
    if found >= least {
        return Ok(());
    }
    let problem = format!("found {found}, expected at least {least}");
    Err(FieldProblem::new(field, problem))
}

/// Checks a name that stands in a path as it is.
pub(super) fn name(field: &str, found: &str) -> Result<(), FieldProblem> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !found.is_empty() && found.bytes().all(allowed) {
        return Ok(());
    }
    let expected = "expected a name of letters, digits, `-`, `_` and `.`";
    let problem = format!("found \"{found}\", {expected}");
    Err(FieldProblem::new(field, problem))
}

/// Reads the paths that a function serves.
pub(super) fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServedPaths, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    ServedPaths::parse(&patterns).map_err(|error| Error::custom(format_args!("`paths`: {error}")))
}

/// Objective of a latency in milliseconds.
pub(super) fn slo(field: &str, slo_ms: u64) -> Result<Slo, FieldProblem> {
    let slo = Slo::try_from_us(slo_ms.saturating_mul(1_000));
    slo.map_err(|error| FieldProblem::new(field, error.to_string()))
}

/// Checks that an address is not among those `before` it, and adds it to them.
pub(super) fn listed_once(
    field: &str,
    address: SocketAddr,
    before: &mut HashSet<SocketAddr>,
) -> Result<(), FieldProblem> {
    if before.insert(address) {
        return Ok(());
    }
    let problem = format!("found {address} again; list each one once");
    Err(FieldProblem::new(field, problem))
}

/// A duration in milliseconds that may be left out.
pub(super) mod optional_ms {
    use serde::Deserializer;
    use tetris_units::duration;

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<u64>, D::Error> {
        duration::milliseconds::deserialize(from).map(Some)
    }
}
