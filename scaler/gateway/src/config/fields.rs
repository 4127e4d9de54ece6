//! Checks of single fields. Their errors name the field.

use std::collections::HashSet;
use std::net::SocketAddr;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tetris_scaler::resources::ServedPaths;
use tetris_scaler_core::Slo;

/// Checks a number.
pub(super) fn least(field: &str, found: u64, least: u64) -> Result<(), String> {
    if found >= least {
        return Ok(());
    }
    Err(format!("{field} is {found}, expected at least {least}"))
}

/// Checks a name that stands in a path as it is.
pub(super) fn name(field: &str, found: &str) -> Result<(), String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !found.is_empty() && found.bytes().all(allowed) {
        return Ok(());
    }
    Err(format!(
        "{field} is \"{found}\", expected a name of letters, digits, `-`, `_` and `.`"
    ))
}

/// Reads the paths that a function serves.
pub(super) fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServedPaths, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    ServedPaths::parse(&patterns).map_err(|error| Error::custom(format_args!("`paths`: {error}")))
}

/// Objective of a latency in milliseconds.
pub(super) fn slo(field: &str, slo_ms: u64) -> Result<Slo, String> {
    let slo = Slo::try_from_us(slo_ms.saturating_mul(1_000));
    slo.map_err(|error| format!("{field}: {error}"))
}

/// Checks that an address is not among those `before` it, and adds it to them.
pub(super) fn listed_once(
    field: &str,
    address: SocketAddr,
    before: &mut HashSet<SocketAddr>,
) -> Result<(), String> {
    if before.insert(address) {
        return Ok(());
    }
    Err(format!("{field} is {address} again; list each one once"))
}
