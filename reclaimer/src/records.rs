//! Contents of a store's records, kept from pass to pass. Records never change; only the time of
//! their last use does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tetris_reclaimer_core::{RecordFile, RecordId, RecordName};
use tetris_store_layout::{
    IdentityId, ObjectRef, RecordEntry, RecordUse, Store, StoreError, TensorId,
};

/// Two changes of a folder within one tick of the kernel's clock have one time stamp. Far longer
/// than any tick.
const CLOCK_TICK: Duration = Duration::from_secs(1);

/// A manifest or derived record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Its objects, each once, by identifier.
    pub(crate) objects: Vec<ObjectRef>,
    /// Length of them all, in bytes.
    pub(crate) total_bytes: u64,
    /// Time of the last use by a load, in milliseconds since the epoch.
    pub(crate) last_use_ms: u64,
    /// The tensors that it is derived from; none for a manifest.
    pub(crate) sources: Vec<TensorId>,
}

/// All records of a store.
#[derive(Debug, Default)]
pub(crate) struct Records {
    known: BTreeMap<RecordId, Record>,
    /// Damaged records that were reported, so that each is reported once.
    damaged: BTreeSet<RecordId>,
    /// Every manifest and derived record that was listed, damaged ones too: its memory, and when it
    /// was used last.
    listed: BTreeMap<RecordId, (u64, u64)>,
    identities: Vec<RecordEntry<IdentityId>>,
    /// The identities' folder's time stamp, where no later change can have the same one.
    identities_stamp: Option<SystemTime>,
}

/// Changes since the last refresh.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Records that were not there before.
    pub(crate) new: Vec<RecordId>,
    /// Records that a load has used since.
    pub(crate) used: Vec<RecordId>,
    /// Records that are damaged, or cannot be read, and were not before.
    pub(crate) damaged: Vec<StoreError>,
}

impl Records {
    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RecordId, &Record)> {
        self.known.iter()
    }

    pub(crate) fn get(&self, id: &RecordId) -> Option<&Record> {
        self.known.get(id)
    }

    /// Looks again.
    pub(crate) fn refresh(&mut self, store: &Store) -> Result<Changes, StoreError> {
        let mut changes = Changes::default();
        let mut listed = BTreeMap::new();
        for entry in store.manifests()? {
            let id = RecordId::Manifest(entry.id);
            listed.insert(id, (entry.allocated, millis(entry.last_used)));
            self.look_at(id, entry.last_used, &mut changes, || {
                let manifest = store.manifest(entry.id)?;
                Ok(manifest.map(|manifest| {
                    let objects = manifest.objects.iter();
                    (objects.map(|entry| entry.object).collect(), Vec::new())
                }))
            });
        }
        for entry in store.derived_records()? {
            let id = RecordId::Derived(entry.id);
            listed.insert(id, (entry.allocated, millis(entry.last_used)));
            self.look_at(id, entry.last_used, &mut changes, || {
                let Some(derived) = store.derived_record(entry.id)? else {
                    return Ok(None);
                };
                let derivation = store.derivation(&derived);
                let derivation = derivation.map_err(|source| StoreError::Record {
                    path: store.object_path(&derived.object),
                    source,
                })?;
                Ok(Some((derivation.objects, derivation.sources)))
            });
        }
        self.known.retain(|id, _| listed.contains_key(id));
        self.damaged.retain(|id| listed.contains_key(id));
        self.listed = listed;
        self.refresh_identities(store)?;
        Ok(changes)
    }

    /// Lists identities again where their folder has changed: nothing else about them ever does.
    fn refresh_identities(&mut self, store: &Store) -> Result<(), StoreError> {
        let began = SystemTime::now();
        let changed = store.identities_changed()?;
        if self.identities_stamp == Some(changed) {
            return Ok(());
        }
        self.identities_stamp = None;
        self.identities = store.identity_records()?;
        let settled = began.duration_since(changed);
        self.identities_stamp = settled.is_ok_and(|age| age > CLOCK_TICK).then_some(changed);
        Ok(())
    }

    /// Memory and number of all records.
    pub(crate) fn used(&self) -> RecordUse {
        let listed = self.listed.values().map(|(bytes, _)| *bytes);
        let identities = self.identities.iter().map(|entry| entry.allocated);
        let each = listed.chain(identities);
        each.fold(RecordUse::default(), |sum, bytes| {
            sum.plus(RecordUse { bytes, files: 1 })
        })
    }

    /// Number of manifests.
    pub(crate) fn manifests(&self) -> u64 {
        let listed = self.listed.keys();
        let manifests = listed.filter(|id| matches!(id, RecordId::Manifest(_)));
        manifests.count() as u64
    }

    /// All of them, to choose from which go. `use_of` says whether a record is wanted, and when all
    /// it names was last seen held.
    pub(crate) fn files(&self, use_of: impl Fn(&RecordId) -> (bool, u64)) -> Vec<RecordFile> {
        let listed = self.listed.iter().map(|(id, (bytes, last_use_ms))| {
            let (wanted, held_ms) = use_of(id);
            RecordFile {
                name: match *id {
                    RecordId::Manifest(id) => RecordName::Manifest(id),
                    RecordId::Derived(id) => RecordName::Derived(id),
                },
                bytes: *bytes,
                last_use_ms: held_ms.max(*last_use_ms),
                wanted,
            }
        });
        let identities = self.identities.iter().map(|entry| RecordFile {
            name: RecordName::Identity(entry.id),
            bytes: entry.allocated,
            last_use_ms: millis(entry.last_used),
            wanted: false,
        });
        listed.chain(identities).collect()
    }

    fn look_at(
        &mut self,
        id: RecordId,
        last_used: SystemTime,
        changes: &mut Changes,
        read: impl FnOnce() -> Result<Option<(Vec<ObjectRef>, Vec<TensorId>)>, StoreError>,
    ) {
        let last_use_ms = millis(last_used);
        if let Some(record) = self.known.get_mut(&id) {
            if last_use_ms > record.last_use_ms {
                changes.used.push(id);
            }
            record.last_use_ms = last_use_ms;
            return;
        }
        match read() {
            Ok(Some((objects, sources))) => {
                let record = Record::new(objects, sources, last_use_ms);
                self.known.insert(id, record);
                changes.new.push(id);
            }
            // It has gone meanwhile.
            Ok(None) => {}
            Err(error) => {
                if self.damaged.insert(id) {
                    changes.damaged.push(error);
                }
            }
        }
    }
}

impl Record {
    fn new(mut objects: Vec<ObjectRef>, sources: Vec<TensorId>, last_use_ms: u64) -> Self {
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup_by_key(|object| object.id);
        let lengths = objects.iter().map(|object| object.len);
        Self {
            total_bytes: lengths.fold(0, u64::saturating_add),
            last_use_ms,
            sources,
            objects,
        }
    }
}

/// Milliseconds since the epoch; 0 before it.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
