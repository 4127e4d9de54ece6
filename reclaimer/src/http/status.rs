//! The node's status as a page: [`NodeStatus`] with the models counted, or listed when asked for.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use crate::keep_warm::Freshness;
use crate::report::{
    Amount, ForeignStatus, HolderCounts, KeptStatus, ModelStatus, MountStatus, NodeStatus,
    ObjectState, ProcessStatus, RecordStatus, ShortfallStatus, StoreStatus, VolumeStatus,
};

/// The page, borrowed from a status.
#[derive(Debug, Serialize)]
pub(super) struct Status<'a> {
    node: Option<&'a str>,
    version: &'a str,
    started_ms: u64,
    /// Not part of the ETag's content: it is new at every pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_ms: Option<u64>,
    dry_run: bool,
    declarations: Freshness,
    declaring_pods: u64,
    volumes: Option<&'a VolumeStatus>,
    processes: &'a [ProcessStatus],
    holder_counts: HolderCounts,
    mounts: &'a [MountStatus],
    stores: Vec<StoreEntry<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kept: &'a [KeptStatus],
    shortfalls: &'a [ShortfallStatus],
}

#[derive(Debug, Serialize)]
struct StoreEntry<'a> {
    name: &'a str,
    /// Bytes that are not UTF-8 are replaced: no path of a store may keep the page from being made.
    path: std::borrow::Cow<'a, str>,
    id: Option<&'a str>,
    error: Option<&'a str>,
    inodes: u64,
    limit_bytes: Option<u64>,
    limit_inodes: Option<u64>,
    guaranteed_bytes: u64,
    guaranteed_inodes: u64,
    records: RecordStatus,
    states: &'a BTreeMap<ObjectState, Amount>,
    holders: u64,
    saved_bytes: u64,
    sharing_factor: f64,
    model_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<&'a [ModelStatus]>,
    foreign: &'a [ForeignStatus],
}

impl<'a> Status<'a> {
    /// All but when it was observed.
    pub(super) fn content(status: &'a NodeStatus, with_models: bool) -> Self {
        let store = |s| store(s, with_models);
        Self {
            node: status.node.as_deref(),
            version: status.version,
            started_ms: status.started_ms,
            observed_ms: None,
            dry_run: status.dry_run,
            declarations: status.declarations,
            declaring_pods: status.declaring_pods,
            volumes: status.volumes.as_ref(),
            processes: &status.processes,
            holder_counts: status.holder_counts,
            mounts: &status.mounts,
            stores: status.stores.iter().map(store).collect(),
            kept: &status.kept,
            shortfalls: &status.shortfalls,
        }
    }

    /// With when it was observed.
    pub(super) fn observed(mut self, observed_ms: u64) -> Self {
        self.observed_ms = Some(observed_ms);
        self
    }
}

fn store(store: &StoreStatus, with_models: bool) -> StoreEntry<'_> {
    StoreEntry {
        name: &store.name,
        path: Path::to_string_lossy(&store.path),
        id: store.id.as_deref(),
        error: store.error.as_deref(),
        inodes: store.inodes,
        limit_bytes: store.limit_bytes,
        limit_inodes: store.limit_inodes,
        guaranteed_bytes: store.guaranteed_bytes,
        guaranteed_inodes: store.guaranteed_inodes,
        records: store.records,
        states: &store.states,
        holders: store.holders,
        saved_bytes: store.saved_bytes,
        sharing_factor: store.sharing_factor,
        model_count: store.models.len(),
        models: with_models.then_some(store.models.as_slice()),
        foreign: &store.foreign,
    }
}
