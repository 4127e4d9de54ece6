//! The page `/engines`: the states of all groups.

use std::net::SocketAddr;

use serde::Serialize;

/// Version of the page.
const VERSION: u32 = 1;

/// The page `/engines`.
#[derive(Debug, Serialize)]
pub(crate) struct EnginesPage {
    version: u32,
    groups: Vec<GroupPage>,
}

/// A group.
#[derive(Debug, Serialize)]
pub(crate) struct GroupPage {
    pub(crate) group: String,
    /// Memory of the device for engines, in bytes, or the number of engines that may be awake.
    pub(super) capacity: u64,
    /// Part of it that engines have, by the gateway's record.
    pub(super) used: u64,
    /// Unit of these two: `bytes` or `engines`.
    pub(super) unit: &'static str,
    pub(crate) waiting: usize,
    pub(crate) engines: Vec<EnginePage>,
}

/// An engine.
#[derive(Debug, Serialize)]
pub(crate) struct EnginePage {
    pub(crate) engine: String,
    pub(super) address: SocketAddr,
    pub(super) models: Vec<String>,
    pub(super) adapters: Vec<String>,
    pub(crate) state: &'static str,
    pub(super) waiting: usize,
    pub(super) running: usize,
    /// Time since its last request or wake.
    pub(super) idle_ms: Option<u64>,
}

impl EnginesPage {
    pub(crate) fn new(groups: impl IntoIterator<Item = GroupPage>) -> Self {
        Self {
            version: VERSION,
            groups: groups.into_iter().collect(),
        }
    }
}
