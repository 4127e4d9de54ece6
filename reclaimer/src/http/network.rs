//! Addresses at which other hosts and pods find the daemon, as the configuration has them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::field_error::FieldError;

/// Account of the scaler, as the manifests install it.
const SCALER: &str = "system:serviceaccount:tetris-system:tetris-scaler";

/// Servers for other hosts and pods. Without an address there is no such server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Address of the server of `/metrics` alone.
    pub metrics: Option<SocketAddr>,
    /// Address of the server of `/healthz` and `/readyz` alone.
    pub probes: Option<SocketAddr>,
    /// Address of the server of `/status` and `/inventory`, over TLS.
    pub inventory: Option<SocketAddr>,
    /// Names of the accounts that may read from it, as the API server names them.
    pub inventory_clients: Vec<String>,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self {
            metrics: None,
            probes: None,
            inventory: None,
            inventory_clients: vec![SCALER.to_owned()],
        }
    }
}

impl NetworkConfig {
    /// Returns true if there is a server.
    pub(crate) fn is_served(&self) -> bool {
        self.metrics.or(self.probes).or(self.inventory).is_some()
    }

    /// Mistakes of a daemon that has an API server to ask if `kubernetes` is true.
    pub(crate) fn mistakes(&self, kubernetes: bool) -> Vec<FieldError> {
        let mut mistakes = Vec::new();
        let Some(inventory) = self.inventory else {
            return mistakes;
        };
        if !kubernetes {
            let expected = "no address without kubernetes.enabled (flag --kubernetes): the API server checks the tokens of clients";
            mistakes.push(FieldError::new("network.inventory", expected, inventory));
        }
        if self.inventory_clients.is_empty() {
            let expected = "at least one account, such as system:serviceaccount:NAMESPACE:NAME, since network.inventory is set";
            mistakes.push(FieldError::new(
                "network.inventory_clients",
                expected,
                "none",
            ));
        }
        mistakes
    }
}

/// The mistake of an address for pages without authentication that others than this machine
/// reach.
pub(crate) fn not_of_this_machine(listen: Option<SocketAddr>) -> Option<FieldError> {
    let address = listen.filter(|address| !address.ip().is_loopback())?;
    let expected = "a loopback address, such as 127.0.0.1:9460, since its pages name the tensors of all stores; \
                    for other hosts and pods set network.metrics, network.probes and network.inventory";
    Some(FieldError::new("listen", expected, address))
}
