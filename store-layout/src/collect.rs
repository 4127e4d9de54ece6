//! Removing records of which nothing is left (LAYOUT.md 5.4).

use std::collections::HashMap;

use crate::digest::{DerivedId, ManifestId};
use crate::error::StoreError;
use crate::store::{ObjectRef, Store};

/// Most identities of one manifest that are kept. Each pod that downloads a model leaves
/// one, and nothing shows when that file has gone. The latest are kept; a process with an older
/// file hashes it again.
pub const MAX_IDENTITIES: usize = 256;

/// Objects of records read before. A record with a known object in the store is not read again.
pub trait KnownRecords {
    /// Objects that the manifest names; none if they are not known.
    fn objects_of_manifest(&self, id: ManifestId) -> &[ObjectRef];
    /// The object that the derived record names, if it is known.
    fn object_of_derived(&self, id: DerivedId) -> Option<ObjectRef>;
}

/// For a collection that reads all records.
struct Unknown;

impl KnownRecords for Unknown {
    fn objects_of_manifest(&self, _: ManifestId) -> &[ObjectRef] {
        &[]
    }

    fn object_of_derived(&self, _: DerivedId) -> Option<ObjectRef> {
        None
    }
}

impl Store {
    /// Removes derived records whose object is gone, manifests of which no object is left or that never had one, identities
    /// whose manifest is gone, and the oldest of more than [`MAX_IDENTITIES`] identities of one manifest. Returns how many.
    /// Hints at paths of manifests that are gone go as well, and are not counted.
    ///
    /// Each record is read before its objects are looked for. A load that publishes at this moment links
    /// objects, which it holds, before the records that name them (INV-6), so it loses none.
    pub fn collect_records(&self) -> Result<u64, StoreError> {
        self.collect_records_but(&Unknown)
    }

    /// As [`Store::collect_records`], but opens only manifests and derived records without a known object in the store.
    pub fn collect_records_but(&self, known: &impl KnownRecords) -> Result<u64, StoreError> {
        let mut removed = 0;
        for record in self.derived_records()? {
            let object = known.object_of_derived(record.id);
            let is_alive = object.is_some_and(|object| self.contains(&object));
            if !is_alive && !self.derived_is_alive(record.id)? {
                removed += u64::from(self.remove_derived(record.id)?);
            }
        }
        for record in self.manifests()? {
            let mut objects = known.objects_of_manifest(record.id).iter();
            let is_alive = objects.any(|object| self.contains(object));
            if !is_alive && !self.manifest_is_alive(record.id)? {
                removed += u64::from(self.remove_manifest(record.id)?);
            }
        }
        self.collect_last_paths();
        Ok(removed + self.collect_identities()?)
    }

    fn derived_is_alive(&self, id: DerivedId) -> Result<bool, StoreError> {
        match self.derived_record(id) {
            Ok(derived) => Ok(derived.is_none_or(|derived| self.contains(&derived.object))),
            Err(error) => not_alive_if_damaged(error),
        }
    }

    fn manifest_is_alive(&self, id: ManifestId) -> Result<bool, StoreError> {
        match self.manifest(id) {
            Ok(Some(manifest)) => {
                let mut objects = manifest.objects.iter();
                Ok(objects.any(|entry| self.contains(&entry.object)))
            }
            Ok(None) => Ok(true),
            Err(error) => not_alive_if_damaged(error),
        }
    }

    fn collect_identities(&self) -> Result<u64, StoreError> {
        let mut removed = 0;
        let mut of_manifest: HashMap<ManifestId, Vec<_>> = HashMap::new();
        for record in self.identity_records()? {
            match self.bound_identity(&record) {
                Ok(Some(Ok((_, manifest)))) => {
                    of_manifest.entry(manifest).or_default().push(record);
                }
                Ok(Some(Err(_damaged))) => removed += u64::from(self.remove_identity(record.id)?),
                Ok(None) => {}
                Err(error) if error.is_leased() => {}
                Err(error) => return Err(error.into()),
            }
        }
        for (manifest, mut records) in of_manifest {
            let keep = if self.manifest_len(manifest).is_some() {
                MAX_IDENTITIES
            } else {
                0
            };
            records.sort_by_key(|record| std::cmp::Reverse(record.last_used));
            for record in records.iter().skip(keep) {
                removed += u64::from(self.remove_identity(record.id)?);
            }
        }
        Ok(removed)
    }
}

/// A damaged record names nothing; one that cannot be read just now may. One with a lease on it stays until the
/// next time.
fn not_alive_if_damaged(error: StoreError) -> Result<bool, StoreError> {
    match error {
        StoreError::Io(error) if error.is_leased() => Ok(true),
        StoreError::Io(_) => Err(error),
        _damaged => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::derived::DerivedKey;
    use crate::digest::TensorId;
    use crate::store::CreateOptions;

    /// Knows one object of every derived record.
    struct Known(ObjectRef);

    impl KnownRecords for Known {
        fn objects_of_manifest(&self, _: ManifestId) -> &[ObjectRef] {
            &[]
        }

        fn object_of_derived(&self, _: DerivedId) -> Option<ObjectRef> {
            Some(self.0)
        }
    }

    #[test]
    fn a_known_object_only_saves_reading_the_record() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let object = store.publish(b"object", Access::ReadOnly).unwrap().object;
        let other = store.publish(b"other", Access::ReadOnly).unwrap().object;
        let key = DerivedKey::new(TensorId::of(b"source"), "cast", 1).unwrap();
        store.record_derived(&key, object).unwrap();
        let known = Known(other);
        // Replaced since it was read: its present object decides.
        store.reclaim(&other).unwrap();
        assert_eq!(store.collect_records_but(&known).unwrap(), 0);
        store.reclaim(&object).unwrap();
        assert_eq!(store.collect_records_but(&known).unwrap(), 1);
    }
}
