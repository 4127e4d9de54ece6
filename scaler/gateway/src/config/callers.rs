//! Callers of a cluster's functions, as far as all functions have them in common.

use ipnet::IpNet;
use serde::Deserialize;
use tetris_scaler::resources::FieldProblem;

/// Largest number of networks, and of namespaces.
const MAX_PROXIES: usize = 256;

/// The way in which a gateway of a cluster knows its callers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct CallersConfig {
    /// Audience of bearer tokens for the gateway.
    pub audience: String,
    /// Networks of proxies whose header `X-Forwarded-For` is believed.
    pub proxies: Vec<IpNet>,
    /// Namespaces of pods that are such proxies.
    pub proxy_namespaces: Vec<String>,
}

impl Default for CallersConfig {
    fn default() -> Self {
        Self {
            audience: "tetris-gateway".to_owned(),
            proxies: Vec::new(),
            proxy_namespaces: Vec::new(),
        }
    }
}

impl CallersConfig {
    pub(super) fn check(&self) -> Result<(), FieldProblem> {
        if self.audience.is_empty() {
            let problem = "found an empty one, expected a name";
            return Err(FieldProblem::new("callers.audience", problem));
        }
        for (field, found) in [
            ("proxies", self.proxies.len()),
            ("proxy_namespaces", self.proxy_namespaces.len()),
        ] {
            if found > MAX_PROXIES {
                let problem = format!("found {found} entries, expected {MAX_PROXIES} at most");
                return Err(FieldProblem::new(format!("callers.{field}"), problem));
            }
        }
        Ok(())
    }
}
