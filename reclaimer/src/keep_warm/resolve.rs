//! Resolution of declarations to the records of a store (T_warm of Tetris 4).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tetris_reclaimer_core::{Clock, RecordId};
use tetris_service_kit::budget::Charge;
use tetris_store_layout::{
    Digest, IdentityBy, LayoutTable, Manifest, ManifestId, ObjectId, ObjectRef, Store, StoreError,
    TensorId,
};

use super::{Declaration, Freshness};
use crate::record_memory::{RecordMemory, StoreNumber};
use crate::records::{Origin, Records};

/// While declarations are unknown, models that were used within this time count as declared.
const UNKNOWN_GRACE_MS: u64 = 10 * 60 * 1000;
/// Number of tables whose sources are read in one pass: each takes up to some milliseconds.
const TABLES_IN_A_PASS: usize = 64;

/// Declarations that count for one store.
#[derive(Debug)]
pub(crate) struct StoreDeclarations<'a> {
    pub(crate) freshness: Freshness,
    pub(crate) declarations: BTreeSet<&'a Declaration>,
    /// Meanings of names.
    pub(crate) models: &'a BTreeMap<String, Vec<Declaration>>,
}

/// Tensors of declared manifests, so that what is derived from them is found.
#[derive(Debug, Default)]
pub(crate) struct WarmResolver {
    declared: HashMap<ManifestId, DeclaredTensors>,
    /// Layouts by table: true if a declared tensor is among its sources. For the manifests above.
    layouts: HashMap<ObjectId, bool>,
}

/// Tensors of a declared manifest, ascending. None if there was no memory for them.
#[derive(Debug, Default)]
struct DeclaredTensors {
    tensors: Vec<TensorId>,
    _memory: Option<Charge<StoreNumber>>,
}

impl WarmResolver {
    /// The warm records: declared manifests, and tensors and layouts made of theirs.
    pub(crate) fn of(
        &mut self,
        store: &Store,
        records: &Records,
        declared: &StoreDeclarations<'_>,
        (clock, now_ms): (&Clock, u64),
    ) -> Result<BTreeSet<RecordId>, StoreError> {
        let manifests = declared_manifests(store, declared)?;
        let mut warm: BTreeSet<RecordId> = manifests
            .iter()
            .map(|id| RecordId::Manifest(*id))
            .filter(|id| records.get(id).is_some())
            .collect();
        self.remember(store, records.memory(), &manifests);
        warm.extend(self.derived(store, records));
        if declared.freshness == Freshness::Unknown {
            let recent = records.iter().filter(|(_, record)| {
                let used_ms = clock.moment_ms(record.last_use_ms);
                now_ms.saturating_sub(used_ms) < UNKNOWN_GRACE_MS
            });
            warm.extend(recent.map(|(id, _)| *id));
        }
        Ok(warm)
    }

    /// Reads the manifests that are newly declared and forgets those that no longer are. One that
    /// cannot be read, or that there is no memory for, has no tensors to protect.
    fn remember(&mut self, store: &Store, memory: &RecordMemory, manifests: &BTreeSet<ManifestId>) {
        let before = self.declared.len();
        self.declared.retain(|id, _| manifests.contains(id));
        let mut changed = self.declared.len() < before;
        for id in manifests {
            if self.declared.contains_key(id) {
                continue;
            }
            if let Ok(Some(manifest)) = store.manifest(*id) {
                let tensors = DeclaredTensors::of(&manifest, memory);
                self.declared.insert(*id, tensors);
                changed = true;
            }
        }
        if changed {
            self.layouts.clear();
        }
    }

    /// Derived records that are made of declared tensors.
    fn derived(&mut self, store: &Store, records: &Records) -> Vec<RecordId> {
        if self.declared.is_empty() {
            return Vec::new();
        }
        let mut unread = TABLES_IN_A_PASS;
        let mut warm = Vec::new();
        let mut tables = HashSet::new();
        for (id, record) in records.iter() {
            let is_warm = match record.origin {
                None => false,
                Some(Origin::Tensor(source)) => self.is_declared(&source),
                Some(Origin::Layout(source, table)) => {
                    tables.insert(table.id);
                    self.is_declared(&source) || self.is_warm_layout(store, &table, &mut unread)
                }
            };
            if is_warm {
                warm.push(*id);
            }
        }
        self.layouts.retain(|table, _| tables.contains(table));
        warm
    }

    fn is_declared(&self, tensor: &TensorId) -> bool {
        let mut declared = self.declared.values();
        declared.any(|of| of.tensors.binary_search(tensor).is_ok())
    }

    /// Reads the sources of a layout, unless that was done or enough were read. Then it is not warm
    /// until the next pass.
    fn is_warm_layout(&mut self, store: &Store, table: &ObjectRef, unread: &mut usize) -> bool {
        if let Some(known) = self.layouts.get(&table.id) {
            return *known;
        }
        if *unread == 0 {
            return false;
        }
        *unread = unread.saturating_sub(1);
        // A table that cannot be read is read again.
        let Ok(Some(found)) = store.layout_table(table) else {
            return false;
        };
        let is_warm = self.declared.values().any(|of| of.is_in(&found));
        self.layouts.insert(table.id, is_warm);
        is_warm
    }
}

impl DeclaredTensors {
    fn of(manifest: &Manifest, memory: &RecordMemory) -> Self {
        let Some(charge) = memory.charge(manifest.tensors.len()) else {
            tracing::warn!(
                tensors = manifest.tensors.len(),
                "no memory for the tensors of a declared model: layouts of it are not kept warm"
            );
            return Self::default();
        };
        let tensors = manifest.tensors.iter().map(|tensor| tensor.id);
        let mut tensors: Vec<TensorId> = tensors.collect();
        tensors.sort_unstable();
        tensors.dedup();
        Self {
            tensors,
            _memory: Some(charge),
        }
    }

    /// Returns true if one of the tensors is a source of the layout. The fewer are looked up.
    fn is_in(&self, table: &LayoutTable) -> bool {
        if self.tensors.len() < table.source_count() {
            self.tensors.iter().any(|tensor| table.has_source(tensor))
        } else {
            let mut sources = table.sources();
            sources.any(|source| self.tensors.binary_search(&source).is_ok())
        }
    }
}

fn declared_manifests(
    store: &Store,
    declared: &StoreDeclarations<'_>,
) -> Result<BTreeSet<ManifestId>, StoreError> {
    let mut manifests = BTreeSet::new();
    let mut digests = HashSet::new();
    let mut note = |declaration: &Declaration| match declaration {
        Declaration::Manifest(id) => manifests.extend(id.parse::<ManifestId>().ok()),
        Declaration::Sha256(digest) => {
            digests.insert(digest.clone());
        }
        Declaration::Name(_) => {}
    };
    for declaration in &declared.declarations {
        match declaration {
            Declaration::Name(name) => {
                let meaning = declared.models.get(name).into_iter().flatten();
                meaning.for_each(&mut note);
            }
            plain => note(plain),
        }
    }
    if !digests.is_empty() {
        for (_, bound) in store.identities()? {
            if let Ok((key, manifest)) = bound
                && let IdentityBy::Sha256 { digest, .. } = key.by
                && digests.contains(&Digest(digest).to_string())
            {
                manifests.insert(manifest);
            }
        }
    }
    Ok(manifests)
}
