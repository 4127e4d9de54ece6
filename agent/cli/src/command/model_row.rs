//! Models of a store, as `ls` and `top` list them.

use std::collections::HashMap;
use std::rc::Rc;
use std::time::SystemTime;

use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_store_layout::{LastPath, Manifest, ManifestId};

use super::error::Result;
use super::loading::{kind_name, lossy};
use super::output;
use super::present::Present;
use super::time::unix_s;

/// Manifests that were read, by id: they never change.
#[derive(Debug, Default)]
pub(crate) struct Manifests(HashMap<ManifestId, Rc<Manifest>>);

impl Manifests {
    /// The manifest `id`, read once. `None` when it is gone or damaged; the damage is said once.
    fn get(&mut self, store: &Store, id: ManifestId) -> Option<Rc<Manifest>> {
        if let Some(known) = self.0.get(&id) {
            return Some(Rc::clone(known));
        }
        match store.manifest(id) {
            Ok(manifest) => {
                let manifest = Rc::new(manifest?);
                self.0.insert(id, Rc::clone(&manifest));
                Some(manifest)
            }
            Err(error) => {
                output::warning(error);
                None
            }
        }
    }
}

/// A model, by its manifest.
#[derive(Debug)]
pub(crate) struct ModelRow {
    pub(crate) id: ManifestId,
    pub(crate) manifest: Rc<Manifest>,
    /// Bytes of its objects that are in the store.
    pub(crate) resident: u64,
    pub(crate) holders: u64,
    pub(crate) last_used: SystemTime,
    pub(crate) last_path: Option<LastPath>,
}

impl ModelRow {
    /// All models of a store, in no order.
    pub(crate) fn all(
        store: &Store,
        present: &Present,
        manifests: &mut Manifests,
    ) -> Result<Vec<Self>> {
        let records = store.manifests()?.into_iter();
        let rows = records.filter_map(|record| {
            let manifest = manifests.get(store, record.id)?;
            Some(Self {
                id: record.id,
                resident: present.resident(&manifest),
                holders: present.model_holders(&manifest),
                last_used: record.last_used,
                last_path: store.last_path(record.id),
                manifest,
            })
        });
        Ok(rows.collect())
    }

    /// The last path for people, and that it is another's view of the file system if it is.
    pub(crate) fn path_in_words(&self) -> String {
        in_words(self.last_path.as_ref())
    }

    /// The model for programs.
    pub(crate) fn document(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "kind": kind_name(self.manifest.kind),
            "tensors": self.manifest.tensors.len(),
            "objects": self.manifest.objects.len(),
            "bytes": self.manifest.object_bytes(),
            "resident_bytes": self.resident,
            "holders": self.holders,
            "last_used_s": unix_s(self.last_used),
            "last_path": self.last_path.as_ref().map(|last| lossy(&last.path)),
            "last_path_is_here": self.last_path.as_ref().map(LastPath::is_of_this_namespace),
        })
    }
}

/// A path for people: `/models/x`, `/models/x (in another mount namespace)`, or `-`.
pub(crate) fn in_words(last: Option<&LastPath>) -> String {
    match last {
        None => "-".to_owned(),
        Some(last) if last.is_of_this_namespace() => last.path.display().to_string(),
        Some(last) => format!("{} (in another mount namespace)", last.path.display()),
    }
}
