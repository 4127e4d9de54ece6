//! Contents of a store's records, kept from pass to pass. Records never change; only the time of
//! their last use does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tetris_reclaimer_core::{Clock, RecordFile, RecordId, RecordName};
use tetris_service_kit::budget::Charge;
use tetris_store_layout::{
    DecodeError, DerivedId, DerivedRecord, IdentityId, KnownRecords, LayoutError, ManifestId,
    ObjectRef, RecordEntry, RecordUse, Store, StoreError, TensorId, TrustDomain,
};

use crate::record_memory::{RecordMemory, StoreNumber};

/// Two changes of a folder within one tick of the kernel's clock have one time stamp. Far longer
/// than any tick.
const CLOCK_TICK: Duration = Duration::from_secs(1);
/// Number of records that are not followed and tried again in one refresh: each is read anew.
const RETRIES: usize = 64;

/// A manifest or derived record.
#[derive(Debug)]
pub(crate) struct Record {
    /// Its objects, each once, by identifier. Empty where the store's share of memory has no room
    /// for them: then the objects are freed by their own times.
    pub(crate) objects: Vec<ObjectRef>,
    /// Length of them all, in bytes.
    pub(crate) total_bytes: u64,
    /// Time of the last use by a load, in milliseconds of the system's clock.
    pub(crate) last_use_ms: u64,
    /// The origin of a derived record; none for a manifest.
    pub(crate) origin: Option<Origin>,
    /// The trust domain whose word it is; the owner for a manifest, which names none.
    domain: TrustDomain,
    /// Share of memory for the objects; `None` if there was no room.
    memory: Option<Charge<StoreNumber>>,
}

/// A damaged record, or cannot be read.
struct UnreadableRecord {
    error: StoreError,
    /// The trust domain whose word it is, if the record has it; else the owner.
    domain: TrustDomain,
}

impl From<StoreError> for UnreadableRecord {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            domain: TrustDomain::Owner,
        }
    }
}

/// The origin of a derived record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// The tensor that its object is made of.
    Tensor(TensorId),
    /// The tensor of its key, and the table, which lists all tensors that the layout is made of. It
    /// is read when they are needed.
    Layout(TensorId, ObjectRef),
}

/// All records of a store.
#[derive(Debug)]
pub(crate) struct Records {
    memory: RecordMemory,
    known: BTreeMap<RecordId, Record>,
    /// Records whose objects there was no memory to follow.
    not_followed: BTreeSet<RecordId>,
    /// Damaged records that were reported, so that each is reported once, and whose word they are.
    damaged: BTreeMap<RecordId, TrustDomain>,
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
    pub(crate) new: BTreeSet<RecordId>,
    /// Records that a load has used since.
    pub(crate) used: BTreeSet<RecordId>,
    /// Records that are damaged, or cannot be read, and were not before.
    pub(crate) damaged: Vec<StoreError>,
}

impl Records {
    /// Creates the records of a store, whose objects are charged to `memory`.
    pub(crate) fn new(memory: RecordMemory) -> Self {
        Self {
            memory,
            known: BTreeMap::new(),
            not_followed: BTreeSet::new(),
            damaged: BTreeMap::new(),
            listed: BTreeMap::new(),
            identities: Vec::new(),
            identities_stamp: None,
        }
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RecordId, &Record)> {
        self.known.iter()
    }

    pub(crate) fn get(&self, id: &RecordId) -> Option<&Record> {
        self.known.get(id)
    }

    /// Share of memory of the store.
    pub(crate) const fn memory(&self) -> &RecordMemory {
        &self.memory
    }

    /// Number of records whose objects there is no memory to follow.
    pub(crate) fn not_followed(&self) -> usize {
        self.not_followed.len()
    }

    /// Looks again.
    pub(crate) fn refresh(&mut self, store: &Store) -> Result<Changes, StoreError> {
        let mut changes = Changes::default();
        let mut listed = BTreeMap::new();
        for entry in store.manifests()? {
            let id = RecordId::Manifest(entry.id);
            listed.insert(id, (entry.allocated, millis(entry.last_used)));
            self.look_at(store, id, entry.last_used, &mut changes);
        }
        for entry in store.derived_records()? {
            let id = RecordId::Derived(entry.id);
            listed.insert(id, (entry.allocated, millis(entry.last_used)));
            self.look_at(store, id, entry.last_used, &mut changes);
        }
        let before = self.known.len();
        self.known.retain(|id, _| listed.contains_key(id));
        self.damaged.retain(|id, _| listed.contains_key(id));
        self.not_followed.retain(|id| listed.contains_key(id));
        if self.known.len() < before {
            self.retry(store);
        }
        self.listed = listed;
        self.refresh_identities(store)?;
        Ok(changes)
    }

    /// Reads some of the records that are not followed again: others have given memory back.
    fn retry(&mut self, store: &Store) {
        let again: Vec<RecordId> = self.not_followed.iter().copied().collect();
        for id in again.into_iter().take(RETRIES) {
            let Some(last_use_ms) = self.known.get(&id).map(|record| record.last_use_ms) else {
                continue;
            };
            if let Ok(Some(record)) = self.read(store, id, last_use_ms) {
                self.keep(id, record);
            }
        }
    }

    fn keep(&mut self, id: RecordId, record: Record) {
        if record.memory.is_some() {
            self.not_followed.remove(&id);
        } else {
            self.not_followed.insert(id);
        }
        self.known.insert(id, record);
    }

    /// Reads a record; `None` if it has gone.
    fn read(
        &self,
        store: &Store,
        id: RecordId,
        last_use_ms: u64,
    ) -> Result<Option<Record>, UnreadableRecord> {
        match id {
            RecordId::Manifest(manifest) => {
                let Some(manifest) = store.manifest(manifest)? else {
                    return Ok(None);
                };
                let objects = manifest.objects.iter().map(|entry| entry.object);
                let count = manifest.objects.len();
                let record = Record::new(&self.memory, None, objects, count, last_use_ms);
                Ok(Some(record))
            }
            RecordId::Derived(derived) => {
                let Some(derived) = store.derived_record(derived)? else {
                    return Ok(None);
                };
                let record = if derived.is_layout() {
                    self.read_layout(store, &derived, last_use_ms)
                        .map_err(|source| UnreadableRecord {
                            error: StoreError::Record {
                                path: store.object_path(&derived.object),
                                source,
                            },
                            domain: derived.key.domain(),
                        })?
                } else {
                    let origin = Some(Origin::Tensor(derived.key.source()));
                    let object = std::iter::once(derived.object);
                    Record::new(&self.memory, origin, object, 1, last_use_ms)
                };
                Ok(Some(Record {
                    domain: derived.key.domain(),
                    ..record
                }))
            }
        }
    }

    /// Reads the objects of a layout, and nothing else of its table.
    fn read_layout(
        &self,
        store: &Store,
        derived: &DerivedRecord,
        last_use_ms: u64,
    ) -> Result<Record, DecodeError> {
        let object = derived.object;
        let origin = Some(Origin::Layout(derived.key.source(), object));
        let table = std::iter::once(object);
        match store.layout_table(&object) {
            Ok(Some(found)) => {
                let (objects, count) = (table.chain(found.objects()), found.object_count());
                let count = count.saturating_add(1);
                Ok(Record::new(
                    &self.memory,
                    origin,
                    objects,
                    count,
                    last_use_ms,
                ))
            }
            // It is there, and cannot be read at this moment.
            Ok(None) | Err(LayoutError::Map(_)) => {
                Ok(Record::new(&self.memory, origin, table, 1, last_use_ms))
            }
            Err(LayoutError::Invalid(error)) => Err(error),
        }
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
        let records = listed.chain(identities);
        records.fold(RecordUse::default(), |sum, bytes| {
            sum.plus(RecordUse { bytes, files: 1 })
        })
    }

    /// Number of manifests.
    pub(crate) fn manifests(&self) -> u64 {
        let listed = self.listed.keys();
        let manifests = listed.filter(|id| matches!(id, RecordId::Manifest(_)));
        manifests.count() as u64
    }

    /// All of them, to choose from which go. `use_of` returns whether a record is wanted, and when all
    /// it names was last seen held.
    pub(crate) fn files(
        &self,
        clock: &Clock,
        use_of: impl Fn(&RecordId) -> (bool, u64),
    ) -> Vec<RecordFile> {
        let listed = self.listed.iter().map(|(id, (bytes, last_use_ms))| {
            let (wanted, held_ms) = use_of(id);
            RecordFile {
                name: match *id {
                    RecordId::Manifest(id) => RecordName::Manifest(id),
                    RecordId::Derived(id) => RecordName::Derived(id),
                },
                bytes: *bytes,
                last_use_ms: held_ms.max(clock.moment_ms(*last_use_ms)),
                wanted,
                domain: self.domain_of(id),
            }
        });
        let identities = self.identities.iter().map(|entry| RecordFile {
            name: RecordName::Identity(entry.id),
            bytes: entry.allocated,
            last_use_ms: clock.moment_ms(millis(entry.last_used)),
            wanted: false,
            domain: TrustDomain::Owner,
        });
        listed.chain(identities).collect()
    }

    /// The trust domain whose word a record is.
    fn domain_of(&self, id: &RecordId) -> TrustDomain {
        let known = self.get(id).map(|record| record.domain);
        let damaged = || self.damaged.get(id).copied();
        known.or_else(damaged).unwrap_or_default()
    }

    fn look_at(
        &mut self,
        store: &Store,
        id: RecordId,
        last_used: SystemTime,
        changes: &mut Changes,
    ) {
        let last_use_ms = millis(last_used);
        if let Some(record) = self.known.get_mut(&id) {
            // Earlier, too: the system's clock may have been set back.
            if last_use_ms != record.last_use_ms {
                changes.used.insert(id);
            }
            record.last_use_ms = last_use_ms;
            return;
        }
        match self.read(store, id, last_use_ms) {
            Ok(Some(record)) => {
                self.keep(id, record);
                changes.new.insert(id);
            }
            // It has gone meanwhile.
            Ok(None) => {}
            Err(UnreadableRecord { error, domain }) => {
                if self.damaged.insert(id, domain).is_none() {
                    changes.damaged.push(error);
                }
            }
        }
    }
}

impl KnownRecords for Records {
    fn objects_of_manifest(&self, id: ManifestId) -> &[ObjectRef] {
        let record = self.get(&RecordId::Manifest(id));
        record.map_or(&[], |record| &record.objects)
    }

    fn object_of_derived(&self, id: DerivedId) -> Option<ObjectRef> {
        let record = self.get(&RecordId::Derived(id))?;
        match record.origin? {
            Origin::Tensor(_) => record.objects.first().copied(),
            Origin::Layout(_, table) => Some(table),
        }
    }
}

impl Record {
    /// Creates a record of `count` objects, which are only read if there is memory for them.
    fn new(
        memory: &RecordMemory,
        origin: Option<Origin>,
        objects: impl Iterator<Item = ObjectRef>,
        count: usize,
        last_use_ms: u64,
    ) -> Self {
        let mut record = Self {
            objects: Vec::new(),
            total_bytes: 0,
            last_use_ms,
            origin,
            domain: TrustDomain::Owner,
            memory: memory.charge(count),
        };
        if let Some(charge) = &mut record.memory {
            record.objects.reserve_exact(count);
            record.objects.extend(objects.take(count));
            record.objects.sort_unstable_by_key(|object| object.id);
            record.objects.dedup_by_key(|object| object.id);
            record.objects.shrink_to_fit();
            RecordMemory::shrink(charge, record.objects.len());
            let lengths = record.objects.iter().map(|object| object.len);
            record.total_bytes = lengths.fold(0, u64::saturating_add);
        }
        record
    }
}

/// Milliseconds since the epoch; 0 before it.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
