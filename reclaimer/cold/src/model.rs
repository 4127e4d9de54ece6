//! Models that a store lists, and what belongs to each.

use std::collections::{BTreeMap, HashSet};
use std::time::SystemTime;

use tetris_folder::{FolderTable, header_key};
use tetris_store_layout::{
    Access, DerivedId, DerivedKey, DerivedRecord, IdentityBy, IdentityKey, Manifest, ManifestId,
    Mapping, ObjectId, ObjectRef, Store, TrustDomain,
};

use crate::error::ColdError;

/// Records remembered as no lists of models. Beyond these, all are read again.
const REMEMBERED: usize = 100_000;

/// A pulled model, by the record of its list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedModel {
    /// Name of the record.
    pub id: DerivedId,
    /// The record: by whose word the model has which list.
    pub record: DerivedRecord,
    /// Time of the last pull or mount that used the list.
    pub last_used: SystemTime,
}

/// Finds the models of a store time and again, without reading the same records.
#[derive(Debug, Default)]
pub struct ModelScan {
    others: HashSet<DerivedId>,
}

impl ModelScan {
    /// The models that `store` lists, in no order. Damaged records count as none.
    ///
    /// # Errors
    /// When the records cannot be listed.
    pub fn models(&mut self, store: &Store) -> Result<Vec<ListedModel>, ColdError> {
        if self.others.len() > REMEMBERED {
            self.others.clear();
        }
        let mut models = Vec::new();
        for entry in store.derived_records()? {
            if self.others.contains(&entry.id) {
                continue;
            }
            match store.derived_record(entry.id) {
                Ok(Some(record)) if FolderTable::is_key(&record.key) => models.push(ListedModel {
                    id: entry.id,
                    record,
                    last_used: entry.last_used,
                }),
                Ok(Some(_)) => {
                    self.others.insert(entry.id);
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "a record is no list of a model"),
            }
        }
        Ok(models)
    }
}

/// All that belongs to a model.
#[derive(Debug)]
pub(crate) struct ModelParts {
    /// The source, as `tetris pull` takes it.
    pub(crate) source_name: String,
    /// Its objects, each once: those of its files, their headers and the list.
    pub(crate) objects: Vec<ObjectRef>,
    pub(crate) manifests: BTreeMap<ManifestId, Manifest>,
    /// Records of the headers.
    pub(crate) headers: Vec<(DerivedKey, ObjectRef)>,
    /// The list, which stays while it is mapped.
    _table: Mapping,
}

impl ModelParts {
    /// The parts of `model` by the records of `store`.
    pub(crate) fn of(model: &ListedModel, store: &Store) -> Result<Self, ColdError> {
        let missing = |source_name: &str, missing: String| ColdError::Incomplete {
            source_name: source_name.to_owned(),
            path: store.root().to_owned(),
            missing,
        };
        let list = model.record.object;
        let mapped = store.map(&list, Access::ReadOnly)?;
        let table_bytes =
            mapped.ok_or_else(|| missing("a model", format!("its list {}", list.id)))?;
        let table = FolderTable::decode(&table_bytes)?;
        let (mut objects, mut manifests) = (vec![list], BTreeMap::new());
        let mut headers = Vec::new();
        for file in &table.files {
            if let Some(id) = file.manifest {
                let manifest = store.manifest(id)?;
                let manifest =
                    manifest.ok_or_else(|| missing(&table.source, format!("the manifest {id}")))?;
                objects.extend(manifest.objects.iter().map(|entry| entry.object));
                manifests.insert(id, manifest);
            }
            if let Some(id) = file.header {
                let header = header_of(id, model.record.key.domain(), store)?;
                let (key, object) =
                    header.ok_or_else(|| missing(&table.source, format!("the header {id}")))?;
                objects.push(object);
                headers.push((key, object));
            }
        }
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup();
        Ok(Self {
            source_name: table.source,
            objects,
            manifests,
            headers,
            _table: table_bytes,
        })
    }

    /// The error of a store that lacks `object`.
    pub(crate) fn incomplete(&self, object: &ObjectRef, store: &Store) -> ColdError {
        ColdError::Incomplete {
            source_name: self.source_name.clone(),
            path: store.root().to_owned(),
            missing: format!("object {}", object.id),
        }
    }

    /// The identities in `store` by which the model's files are known at their sources.
    pub(crate) fn identities(
        &self,
        store: &Store,
    ) -> Result<Vec<(IdentityKey, ManifestId)>, ColdError> {
        let identities = store.identities()?.into_iter();
        let of_sources = identities.filter_map(|(_, bound)| {
            let (key, manifest) = bound.ok()?;
            // A file of this node is another after a restart.
            let is_of_source = !matches!(key.by, IdentityBy::Stat { .. });
            (is_of_source && self.manifests.contains_key(&manifest)).then_some((key, manifest))
        });
        Ok(of_sources.collect())
    }
}

/// The record of a header by the word of `domain`, or of the store's owner.
fn header_of(
    id: ObjectId,
    domain: TrustDomain,
    store: &Store,
) -> Result<Option<(DerivedKey, ObjectRef)>, ColdError> {
    for domain in [domain, TrustDomain::Owner] {
        let Some(key) = header_key(id).map(|key| key.in_domain(domain)) else {
            continue;
        };
        let record = store.derived_record(key.id())?;
        if let Some(record) = record.filter(|record| record.object.id == id) {
            return Ok(Some((key, record.object)));
        }
    }
    Ok(None)
}
