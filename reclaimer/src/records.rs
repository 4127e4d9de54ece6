//! What the records of a store say, kept from one pass to the next: records never change, only the time of
//! their last use does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use tetris_reclaimer_core::RecordId;
use tetris_store_layout::{ObjectRef, Store, StoreError, TensorId};

/// A manifest or derived record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Its objects, each once, by identifier.
    pub(crate) objects: Vec<ObjectRef>,
    /// Length of them all, in bytes.
    pub(crate) total_bytes: u64,
    /// When a load used it last, in milliseconds since the epoch.
    pub(crate) last_use_ms: u64,
    /// The tensor that it is derived from; none for a manifest.
    pub(crate) source: Option<TensorId>,
}

/// All records of a store.
#[derive(Debug, Default)]
pub(crate) struct Records {
    known: BTreeMap<RecordId, Record>,
    /// Records that name nothing that can be understood, so that each is told once.
    damaged: BTreeSet<RecordId>,
}

/// What changed since the last look.
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
        let mut listed = BTreeSet::new();
        for entry in store.manifests()? {
            let id = RecordId::Manifest(entry.id);
            listed.insert(id);
            self.look_at(id, entry.last_used, &mut changes, || {
                let manifest = store.manifest(entry.id)?;
                Ok(manifest.map(|manifest| {
                    let objects = manifest.objects.iter();
                    (objects.map(|entry| entry.object).collect(), None)
                }))
            });
        }
        for entry in store.derived_records()? {
            let id = RecordId::Derived(entry.id);
            listed.insert(id);
            self.look_at(id, entry.last_used, &mut changes, || {
                let derived = store.derived_record(entry.id)?;
                Ok(derived.map(|derived| (vec![derived.object], Some(derived.key.source()))))
            });
        }
        self.known.retain(|id, _| listed.contains(id));
        self.damaged.retain(|id| listed.contains(id));
        Ok(changes)
    }

    fn look_at(
        &mut self,
        id: RecordId,
        last_used: SystemTime,
        changes: &mut Changes,
        read: impl FnOnce() -> Result<Option<(Vec<ObjectRef>, Option<TensorId>)>, StoreError>,
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
            Ok(Some((objects, source))) => {
                let record = Record::new(objects, source, last_use_ms);
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
    fn new(mut objects: Vec<ObjectRef>, source: Option<TensorId>, last_use_ms: u64) -> Self {
        objects.sort_unstable_by_key(|object| object.id);
        objects.dedup_by_key(|object| object.id);
        let lengths = objects.iter().map(|object| object.len);
        Self {
            total_bytes: lengths.fold(0, u64::saturating_add),
            last_use_ms,
            source,
            objects,
        }
    }
}

/// Milliseconds since the epoch; 0 before it.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
