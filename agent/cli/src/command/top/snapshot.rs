//! The state of a store at one moment.

use std::cmp::Reverse;
use std::time::Duration;

use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_cli::holders::{
    HolderProcesses, LoadingProcess, SCAN_LIMIT, loading_processes, processes_of,
};
use tetris_store_layout::Usage;

use crate::command::error::Result;
use crate::command::holding;
use crate::command::loading::lossy;
use crate::command::model_row::{Manifests, ModelRow};
use crate::command::present::Present;

/// Manifests read at earlier looks.
#[derive(Debug, Default)]
pub(super) struct Memory(Manifests);

/// A store at one moment.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) root: String,
    pub(super) usage: Usage,
    pub(super) objects: u64,
    pub(super) object_bytes: u64,
    pub(super) referenced_bytes: u64,
    /// Number of references by all holders.
    pub(super) holders: u64,
    /// `complete` or `incomplete`, of the numbers of holders.
    pub(super) holder_counts: &'static str,
    /// Bytes that private copies of each holder would take in addition.
    pub(super) saved_bytes: u64,
    pub(super) quarantined: u64,
    pub(super) quarantined_bytes: u64,
    /// The models, those that are held most first.
    pub(super) models: Vec<ModelRow>,
    pub(super) found: HolderProcesses,
    pub(super) loading: Vec<LoadingProcess>,
    /// Number of files that are being read by whichever process: their creation locks.
    pub(super) creation_locks: u64,
}

impl Snapshot {
    /// Looks at `store`.
    pub(super) fn of(store: &Store, memory: &mut Memory) -> Result<Self> {
        let present = Present::of(store)?;
        let mut models = ModelRow::all(store, &present, &mut memory.0)?;
        models.sort_by_key(|row| (Reverse(row.holders), Reverse(row.last_used), row.id));
        let (mut objects, mut object_bytes) = (0, 0);
        let (mut referenced_bytes, mut saved_bytes, mut holders) = (0, 0_u64, 0);
        let mut in_use = Vec::new();
        for entry in present.entries() {
            let (len, count) = (entry.object.len, present.holders(&entry.object));
            objects += 1;
            object_bytes += len;
            holders += count;
            if count > 0 {
                referenced_bytes += len;
                saved_bytes = saved_bytes.saturating_add(len.saturating_mul(count - 1));
                in_use.push(*entry);
            }
        }
        let quarantined = store.quarantined()?.objects;
        // Without a bar: the screen is taken.
        let processes = processes_of(&in_use, SCAN_LIMIT, |_, _| ())?;
        Ok(Self {
            root: lossy(store.root()),
            usage: store.usage()?,
            objects,
            object_bytes,
            referenced_bytes,
            holders,
            holder_counts: present.counts().word(),
            saved_bytes,
            quarantined: quarantined.len() as u64,
            quarantined_bytes: quarantined.iter().map(|entry| entry.allocated).sum(),
            models,
            found: processes,
            loading: loading_processes(store, Duration::from_secs(1))?,
            creation_locks: present.creation_locks(store),
        })
    }

    /// The snapshot for programs.
    pub(super) fn document(&self) -> Value {
        let loading: Vec<Value> = self
            .loading
            .iter()
            .map(|loading| holding::with_info(&loading.info, loading.objects, loading.bytes))
            .collect();
        let models: Vec<Value> = self.models.iter().map(ModelRow::document).collect();
        json!({
            "store": self.root,
            "capacity_bytes": self.usage.capacity,
            "free_bytes": self.usage.free,
            "objects": self.objects,
            "object_bytes": self.object_bytes,
            "referenced_bytes": self.referenced_bytes,
            "holders": self.holders,
            "holder_counts": self.holder_counts,
            "saved_bytes": self.saved_bytes,
            "quarantined": self.quarantined,
            "quarantined_bytes": self.quarantined_bytes,
            "models": models,
            "processes": holding::documents(self.found.processes.iter()),
            "processes_hidden": self.found.hidden,
            "processes_skipped": self.found.skipped,
            "loads": self.creation_locks,
            "loading": loading,
        })
    }
}
