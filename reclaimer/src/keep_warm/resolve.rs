//! Resolution of declarations to the records of a store (T_warm of Tetris 4).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tetris_reclaimer_core::RecordId;
use tetris_store_layout::{Digest, IdentityBy, ManifestId, Store, StoreError, TensorId};

use super::{Declaration, Freshness};
use crate::records::Records;

/// While declarations are unknown, models that were used within this time count as declared.
const UNKNOWN_GRACE_MS: u64 = 10 * 60 * 1000;

/// Declarations that count for one store.
#[derive(Debug)]
pub(crate) struct StoreDeclarations<'a> {
    pub(crate) freshness: Freshness,
    pub(crate) declarations: BTreeSet<&'a Declaration>,
    /// Meanings of names.
    pub(crate) models: &'a BTreeMap<String, Vec<Declaration>>,
}

/// Tensors of manifests that are or were declared, so that their derived tensors are found.
#[derive(Debug, Default)]
pub(crate) struct WarmResolver {
    tensors: HashMap<ManifestId, HashSet<TensorId>>,
}

impl WarmResolver {
    /// The warm records: declared manifests, and tensors and layouts made of theirs.
    pub(crate) fn of(
        &mut self,
        store: &Store,
        records: &Records,
        declared: &StoreDeclarations<'_>,
        now_ms: u64,
    ) -> Result<BTreeSet<RecordId>, StoreError> {
        let manifests = declared_manifests(store, declared)?;
        let mut warm: BTreeSet<RecordId> = manifests
            .iter()
            .map(|id| RecordId::Manifest(*id))
            .filter(|id| records.get(id).is_some())
            .collect();
        self.remember(store, &manifests);
        if !self.tensors.is_empty() {
            let derived = records.iter().filter(|(_, record)| {
                let mut sources = record.sources.iter();
                sources.any(|source| self.tensors.values().any(|of| of.contains(source)))
            });
            warm.extend(derived.map(|(id, _)| *id));
        }
        if declared.freshness == Freshness::Unknown {
            let recent = records
                .iter()
                .filter(|(_, record)| now_ms.saturating_sub(record.last_use_ms) < UNKNOWN_GRACE_MS);
            warm.extend(recent.map(|(id, _)| *id));
        }
        Ok(warm)
    }

    /// Reads the manifests that are newly declared and forgets those that no longer are. One that
    /// cannot be read has no tensors to protect.
    fn remember(&mut self, store: &Store, manifests: &BTreeSet<ManifestId>) {
        self.tensors.retain(|id, _| manifests.contains(id));
        for id in manifests {
            if !self.tensors.contains_key(id)
                && let Ok(Some(manifest)) = store.manifest(*id)
            {
                let tensors = manifest.tensors.iter().map(|tensor| tensor.id);
                self.tensors.insert(*id, tensors.collect());
            }
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
