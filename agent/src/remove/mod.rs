//! Removal of models: their records, and the objects that no one maps and no other model has.
//!
//! Each object goes by the steps of LAYOUT.md 5.3, which never free a mapped one. Objects go before the
//! records that name them (5.4). A removed model loaded again is read again.

mod find;
mod wanted;

pub use find::{by_last_path, known_models};
pub use wanted::Sharer;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tetris_store_layout::{ManifestId, ObjectEntry, ObjectRef, Reclaimed, Store, StoreError};

use self::wanted::Wanted;

/// The result of a removal, or of one that is only planned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveReport {
    /// The models, each with true if its records are gone. The records of a model stay while some of its
    /// objects stay that no other model has.
    pub models: BTreeMap<ManifestId, bool>,
    /// Number of objects freed.
    pub freed_objects: u64,
    /// Their bytes.
    pub freed_bytes: u64,
    /// Number of records removed: manifests, identities and derived records.
    pub freed_records: u64,
    /// Objects that stay because processes hold them.
    pub held: Vec<ObjectEntry>,
    /// Objects that stay because other models or derived tensors have them.
    pub shared: Vec<(ObjectRef, BTreeSet<Sharer>)>,
    /// Number of objects that could not be reclaimed, for reasons in the log.
    pub failed_objects: u64,
}

/// Removes the models with these manifests; with `dry_run` only reports. Tensors derived from
/// tensors of these models, and of no others, go as well.
///
/// # Errors
/// When the store cannot be listed.
pub fn remove_models(
    store: &Store,
    ids: &BTreeSet<ManifestId>,
    dry_run: bool,
) -> Result<RemoveReport, StoreError> {
    let wanted = Wanted::of(store, ids)?;
    let mut report = RemoveReport::default();
    let stays = free(store, &wanted, dry_run, &mut report)?;
    for (id, manifest) in &wanted.manifests {
        let mut objects = manifest.iter().flat_map(|manifest| &manifest.objects);
        let gone = !objects.any(|entry| stays.contains(&entry.object));
        report.models.insert(*id, gone);
    }
    if !dry_run {
        remove_records(store, &wanted, &stays, &mut report)?;
    }
    Ok(report)
}

/// Frees the objects that no one else has. Returns those that stay although no other model has them.
fn free(
    store: &Store,
    wanted: &Wanted,
    dry_run: bool,
    report: &mut RemoveReport,
) -> Result<HashSet<ObjectRef>, StoreError> {
    let present = store.objects()?.objects.into_iter();
    let present: HashMap<_, _> = present.map(|entry| (entry.object, entry)).collect();
    let mut stays = HashSet::new();
    for object in wanted.objects() {
        let Some(entry) = present.get(&object) else {
            continue;
        };
        if let Some(sharers) = wanted.sharers(&object) {
            report.shared.push((object, sharers.clone()));
            continue;
        }
        let reclaimed = match reclaim(store, &object, dry_run) {
            Ok(reclaimed) => reclaimed,
            Err(error) => {
                // One object that cannot be reclaimed must not keep the others from it.
                tracing::warn!(%error, "object not reclaimed");
                report.failed_objects += 1;
                stays.insert(object);
                continue;
            }
        };
        match reclaimed {
            Reclaimed::Freed { bytes } => {
                report.freed_objects += 1;
                report.freed_bytes += bytes;
            }
            Reclaimed::Referenced => {
                stays.insert(object);
                report.held.push(*entry);
            }
            Reclaimed::Absent => {}
        }
    }
    Ok(stays)
}

/// Frees an object, or with `dry_run` asks it if it could be freed.
fn reclaim(store: &Store, object: &ObjectRef, dry_run: bool) -> Result<Reclaimed, StoreError> {
    if !dry_run {
        return store.reclaim(object);
    }
    Ok(if store.is_held(object)? {
        Reclaimed::Referenced
    } else {
        Reclaimed::Freed { bytes: object.len }
    })
}

/// Removes the records of models and derived tensors of which nothing stays.
fn remove_records(
    store: &Store,
    wanted: &Wanted,
    stays: &HashSet<ObjectRef>,
    report: &mut RemoveReport,
) -> Result<(), StoreError> {
    for (id, objects) in &wanted.derived {
        if !objects.iter().all(|object| stays.contains(object)) {
            report.freed_records += u64::from(store.remove_derived(*id)?);
        }
    }
    for (id, bound) in store.identities()? {
        if let Ok((_, manifest)) = bound
            && report.models.get(&manifest) == Some(&true)
        {
            report.freed_records += u64::from(store.remove_identity(id)?);
        }
    }
    for (id, gone) in &report.models {
        if *gone {
            report.freed_records += u64::from(store.remove_manifest(*id)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_store_layout::{Access, CreateOptions, DerivedKey, TensorId};

    #[test]
    fn tensors_derived_from_the_model_alone_go_with_it() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let agent = crate::Agent::with_store(Store::open(dir.path()).unwrap());
        let write = |name: &str, seeds: &[u8]| {
            let path = dir.path().with_extension(name);
            let mut header = Vec::new();
            let mut data = Vec::new();
            for seed in seeds {
                let at = data.len();
                data.extend(vec![*seed; 200_000]);
                header.push(format!(
                    "\"t{seed}\":{{\"dtype\":\"U8\",\"shape\":[200000],\"data_offsets\":[{at},{}]}}",
                    data.len()
                ));
            }
            let header = format!("{{{}}}", header.join(","));
            let mut file = (header.len() as u64).to_le_bytes().to_vec();
            file.extend(header.as_bytes());
            file.extend(data);
            std::fs::write(&path, file).unwrap();
            path
        };
        let options = crate::LoadOptions::default().with_min_shared_bytes(0);
        let load = |path: &std::path::Path| {
            let model = agent.load_with(path, &options).unwrap();
            model.manifests().next().unwrap().1.unwrap()
        };
        let (one, two) = (write("one", &[1, 2]), write("two", &[2, 3]));
        let (first, second) = (load(&one), load(&two));
        let derive = |seed: u8| {
            let key = DerivedKey::new(TensorId::of(&vec![seed; 200_000]), "cast", 1).unwrap();
            let made =
                store.get_or_create(&key, Access::ReadOnly, std::time::Duration::ZERO, || {
                    Ok::<_, std::convert::Infallible>(vec![seed + 100; 100_000])
                });
            made.unwrap();
        };
        derive(1);
        derive(2);
        let ids = BTreeSet::from([first]);
        let planned = remove_models(&store, &ids, true).unwrap();
        let done = remove_models(&store, &ids, false).unwrap();
        assert_eq!(
            (planned.freed_objects, planned.freed_bytes),
            (done.freed_objects, done.freed_bytes)
        );
        // Its own tensor and the cast of it; the other tensor and its cast are the second model's as well.
        assert_eq!((done.freed_objects, done.freed_bytes), (2, 300_000));
        assert_eq!(done.models, BTreeMap::from([(first, true)]));
        let sharers = BTreeSet::from([Sharer::Model(second)]);
        assert_eq!(done.shared.len(), 1);
        assert_eq!(done.shared[0].1, sharers);
        assert_eq!(store.derived_records().unwrap().len(), 1);
        assert!(store.manifest(first).unwrap().is_none());
        assert!(store.manifest(second).unwrap().is_some());
        for path in [one, two] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
