//! Engines, with the models that they serve.

use std::net::SocketAddr;

use tetris_scaler_dispatch::engines::{EngineId, EngineRules};
use tokio::sync::Notify;

use crate::endpoint::Endpoint;
use crate::pool::Pool;

/// An engine as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineSettings {
    /// Name of its function.
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Names of its model; the first one is the model's own.
    pub(crate) models: Vec<String>,
    /// Names of adapters of the model.
    pub(crate) adapters: Vec<String>,
    pub(crate) rules: EngineRules,
}

/// An engine.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) id: EngineId,
    pub(super) settings: EngineSettings,
    pub(super) endpoint: std::sync::Arc<Endpoint>,
    /// Asks it for its state before the next interval.
    pub(super) changed: Notify,
}

impl Engine {
    pub(super) fn new(id: EngineId, settings: EngineSettings) -> Self {
        let endpoint = Endpoint {
            name: settings.name.clone(),
            configuration: String::new(),
            address: settings.address,
            pool: Pool::new(settings.address),
        };
        Self {
            id,
            settings,
            endpoint: endpoint.into(),
            changed: Notify::new(),
        }
    }

    /// Name of its model.
    pub(super) fn model(&self) -> &str {
        self.settings.models.first().map_or("", String::as_str)
    }
}
