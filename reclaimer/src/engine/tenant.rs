//! One open store: its objects and records, who holds them, and the times of use.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use tetris_reclaimer_core::{
    Clock, Event, ModelSnapshot, ObjectSnapshot, RecordFile, RecordId, RecordName, ReloadCost,
    Space, State, StoreSnapshot,
};
use tetris_store_layout::{
    Catalog, IoError, ObjectEntry, ObjectId, RecordUse, Refresh, Store, StoreError,
};

use super::held::{HeldObjects, Question, Turn};
use super::reading_mark::ReadingMark;
use crate::keep_warm::{StoreDeclarations, WarmResolver};
use crate::record_memory::RecordMemory;
use crate::records::{Changes, Records, millis};
use crate::report::{Loads, StoredObject};
use crate::store::StoreConfig;

/// Inodes of a store without content: its directory and folders, header, lock file, sockets and
/// learned state, with a few to spare.
const STORE_INODES: u64 = 16;

/// One store.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) config: StoreConfig,
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) records: Records,
    resolver: WarmResolver,
    /// Place of each object in the catalog.
    index: Index,
    /// The objects in the catalog, for reports; `None` when it has changed since.
    stored: Option<Arc<[StoredObject]>>,
    /// Answers of the objects in the catalog.
    held: HeldObjects,
    /// Records all of whose objects in the store are held.
    in_use: BTreeSet<RecordId>,
    /// False before the first observation, whose objects are no loads to count.
    looked_at: bool,
    /// The mark on the store until a pass has read all of it.
    reading: Option<ReadingMark>,
    /// Room of records that were quarantined.
    set_aside: RecordUse,
    /// Bytes that are new in the catalog since the last observation.
    new_bytes: u64,
}

/// Inputs of an observation besides the store.
pub(crate) struct ObservationContext<'a> {
    /// The objects to ask who holds them, and
    pub(super) question: Question,
    /// the pass that asks.
    pub(super) turn: Turn,
    /// the time line of files' times,
    pub(crate) clock: &'a Clock,
    pub(crate) declared: &'a StoreDeclarations<'a>,
    pub(crate) reload: ReloadCost,
}

/// One store at one moment.
#[derive(Debug)]
pub(crate) struct StoreObservation {
    pub(crate) snapshot: StoreSnapshot,
    /// The objects, in the order of the snapshot.
    pub(crate) stored: Arc<[StoredObject]>,
    pub(crate) loads: Loads,
    /// Records found damaged for the first time.
    pub(crate) damaged: Vec<StoreError>,
    /// The reason that an object could not be asked who holds it.
    pub(crate) unasked: Option<IoError>,
}

impl StoreObservation {
    /// Observation of a store that cannot be listed: nothing.
    pub(crate) fn nothing(config: &StoreConfig) -> Self {
        Self {
            snapshot: StoreSnapshot {
                name: config.name.clone(),
                namespace: config.namespace().map(str::to_owned),
                ..StoreSnapshot::default()
            },
            stored: Arc::default(),
            loads: Loads::default(),
            damaged: Vec::new(),
            unasked: None,
        }
    }
}

impl Tenant {
    /// Opens the store. `last_held` gives the times of use that an earlier daemon persisted.
    pub(crate) fn open(
        config: StoreConfig,
        memory: RecordMemory,
        last_held: impl FnOnce(&Store) -> HashMap<ObjectId, u64>,
    ) -> Result<Self, StoreError> {
        let store = Store::open(&config.path)?;
        Ok(Self {
            held: HeldObjects::new(last_held(&store)),
            config,
            store,
            catalog: Catalog::default(),
            records: Records::new(memory),
            resolver: WarmResolver::default(),
            index: Index::default(),
            stored: None,
            in_use: BTreeSet::new(),
            looked_at: false,
            reading: None,
            set_aside: RecordUse::default(),
            new_bytes: 0,
        })
    }

    /// Marks the store at each reading of its content, until [`Tenant::end_reading`].
    pub(super) fn with_reading_mark(mut self, mark: ReadingMark) -> Self {
        self.reading = Some(mark);
        self
    }

    /// Reads content of the store. Should it end the daemon, the next one knows.
    pub(super) fn marked<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if let Some(mark) = &self.reading {
            mark.begin();
        }
        let result = read(self);
        if let Some(mark) = &self.reading {
            mark.pause();
        }
        result
    }

    /// Notes that a pass has read the whole store.
    pub(super) fn end_reading(&mut self) {
        if let Some(mark) = self.reading.take() {
            mark.end();
        }
    }

    /// Room of records that were quarantined.
    pub(crate) fn set_aside(&self) -> RecordUse {
        self.set_aside
    }

    /// Returns true if the directory still is the opened store. Another one may be mounted
    /// there now.
    pub(crate) fn is_still_there(&self) -> Result<bool, StoreError> {
        self.store.is_still_there()
    }

    /// Observes the store after a [`refresh`](Self::refresh), and reports the events since the last observation to
    /// `state`.
    pub(crate) fn observe(
        &mut self,
        around: &ObservationContext<'_>,
        state: &mut State,
    ) -> Result<StoreObservation, StoreError> {
        let new_bytes = std::mem::take(&mut self.new_bytes);
        let changes = self.records.refresh(&self.store)?;
        let (declared, now_ms) = (around.declared, around.turn.now_ms);
        let warm =
            self.resolver
                .of(&self.store, &self.records, declared, (around.clock, now_ms))?;
        let objects = &self.catalog.listing().objects;
        let asked = self.held.ask(around.question, &around.turn, |place| {
            let entry = objects.get(place);
            entry.map_or(Ok(false), |entry| self.store.is_held(&entry.object))
        });
        let snapshot = self.snapshot(&warm, around);
        let mut loads = Loads::default();
        if asked.is_ok() {
            loads = self.notice(&snapshot, &changes, new_bytes, now_ms, state);
        }
        Ok(StoreObservation {
            snapshot,
            stored: self.stored(),
            loads,
            damaged: changes.damaged,
            unasked: asked.err(),
        })
    }

    /// Brings the catalog up to date.
    pub(crate) fn refresh(&mut self, how: Refresh) -> Result<(), StoreError> {
        if how == Refresh::Everything || !self.looked_at {
            self.set_aside = self.store.records_quarantined()?;
        }
        if !self.store.refresh(&mut self.catalog, how)? && self.looked_at {
            return Ok(());
        }
        let objects = &self.catalog.listing().objects;
        let known = |entry: &&ObjectEntry| self.index.contains_key(&entry.object.id);
        let new = objects.iter().filter(|entry| !known(entry));
        let new_bytes = new.map(|entry| entry.object.len).sum();
        self.new_bytes = self.new_bytes.saturating_add(new_bytes);
        self.held.follow(objects, |id| self.index.get(id).copied());
        self.index = index(objects);
        self.stored = None;
        Ok(())
    }

    /// Number of objects in the catalog.
    pub(crate) fn objects(&self) -> usize {
        self.catalog.listing().objects.len()
    }

    fn stored(&mut self) -> Arc<[StoredObject]> {
        let objects = self.catalog.listing().objects.iter();
        let stored = self
            .stored
            .get_or_insert_with(|| objects.map(StoredObject::from).collect());
        Arc::clone(stored)
    }

    /// Times at which objects may last have been held, in milliseconds since the epoch, for a later daemon.
    pub(crate) fn last_held(&self) -> HashMap<ObjectId, u64> {
        self.held.times(&self.catalog.listing().objects)
    }

    /// Notes that reclaim found the object at this place of the last snapshot held.
    pub(super) fn spare(&mut self, object: u32, turn: &Turn) {
        let Some(id) = self.entry(object).map(|entry| entry.object.id) else {
            return;
        };
        self.held.spare(object as usize, id, turn);
    }

    fn snapshot(
        &mut self,
        warm: &BTreeSet<RecordId>,
        around: &ObservationContext<'_>,
    ) -> StoreSnapshot {
        let (clock, reload, now_ms) = (around.clock, around.reload, around.turn.now_ms);
        self.held.prune(now_ms, |id| self.index.contains_key(id));
        let entries = self.catalog.listing().objects.iter().enumerate();
        let objects = entries.map(|(place, entry)| ObjectSnapshot {
            id: entry.object.id,
            len_bytes: entry.object.len,
            allocated_bytes: entry.allocated,
            published_ms: clock.moment_ms(millis(entry.published)).min(now_ms),
            last_use_ms: self.held.last_held_ms(place),
            held: self.held.is_held(place),
        });
        let mut objects: Vec<ObjectSnapshot> = objects.collect();
        for id in self.held.backed_off(now_ms) {
            let place = self.index.get(id).map(|place| *place as usize);
            if let Some(object) = place.and_then(|place| objects.get_mut(place)) {
                object.held = true;
            }
        }
        let models = self.records.iter().map(|(id, record)| ModelSnapshot {
            id: *id,
            objects: record
                .objects
                .iter()
                .filter_map(|object| self.index.get(&object.id).copied())
                .collect(),
            total_bytes: record.total_bytes,
            last_use_ms: clock.moment_ms(record.last_use_ms).min(now_ms),
            reload_ms: reload.of(record.total_bytes),
            warm: warm.contains(id),
        });
        StoreSnapshot {
            name: self.config.name.clone(),
            namespace: self.config.namespace().map(str::to_owned),
            mount: 0,
            objects,
            models: models.collect(),
            record_bytes: self.record_bytes(),
            other_inodes: self.other_inodes(),
        }
    }

    /// Infers loads: from a newer time of the record, or because all of a model's objects are
    /// mapped.
    fn notice(
        &mut self,
        snapshot: &StoreSnapshot,
        changes: &Changes,
        new_bytes: u64,
        now_ms: u64,
        state: &mut State,
    ) -> Loads {
        let mut loads = Loads {
            missed_bytes: new_bytes,
            ..Loads::default()
        };
        let in_use: BTreeSet<RecordId> = snapshot
            .models
            .iter()
            .filter(|model| is_held(model, snapshot))
            .map(|model| model.id)
            .collect();
        for model in &snapshot.models {
            let (id, name) = (model.id, &self.config.name);
            let new = changes.new.contains(&id);
            let taken_up = in_use.contains(&id) && !self.in_use.contains(&id);
            if new || taken_up || changes.used.contains(&id) {
                let at_ms = if taken_up { now_ms } else { model.last_use_ms };
                state.observe(name, Event::Loaded { model: id, at_ms });
                if new {
                    loads.misses += 1;
                } else {
                    loads.hits += 1;
                    loads.hit_bytes += resident_bytes(model, snapshot);
                }
            }
            if self.in_use.contains(&id) && !in_use.contains(&id) {
                let at_ms = now_ms;
                state.observe(name, Event::Released { model: id, at_ms });
            }
        }
        self.in_use = in_use;
        if !std::mem::replace(&mut self.looked_at, true) {
            return Loads::default();
        }
        loads
    }

    /// Major and minor number of the device that the store lies on.
    pub(crate) fn device(&self) -> (u64, u64) {
        self.store.device()
    }

    /// Memory and inodes of the objects in the catalog, the records and the folders.
    pub(crate) fn used(&self) -> Space {
        let objects = &self.catalog.listing().objects;
        let bytes: u64 = objects.iter().map(|entry| entry.allocated).sum();
        Space {
            bytes: bytes.saturating_add(self.record_bytes()),
            inodes: self.other_inodes().saturating_add(objects.len() as u64),
        }
    }

    /// Memory of all records, of those that were quarantined, too.
    fn record_bytes(&self) -> u64 {
        self.records.used().plus(self.set_aside).bytes
    }

    /// Inodes besides those of objects. A manifest may have a hint beside it.
    fn other_inodes(&self) -> u64 {
        let records = self.records.used().plus(self.set_aside).files;
        records.saturating_add(self.records.manifests() + STORE_INODES)
    }

    /// The records, to choose from which go.
    pub(crate) fn record_files(&self, snapshot: &StoreSnapshot, clock: &Clock) -> Vec<RecordFile> {
        let models = snapshot.models.iter();
        let uses: HashMap<RecordId, (bool, u64)> = models
            .map(|model| {
                let wanted = model.warm || self.in_use.contains(&model.id);
                (model.id, (wanted, held_ms(model, snapshot)))
            })
            .collect();
        self.records
            .files(clock, |id| uses.get(id).copied().unwrap_or_default())
    }

    /// Removes records, and then those without an object. Returns their number. Their memory
    /// is known at the next look.
    pub(crate) fn remove_records(&mut self, names: &[RecordName]) -> Result<u64, StoreError> {
        let mut removed = 0;
        for name in names {
            removed += u64::from(match *name {
                RecordName::Manifest(id) => self.store.remove_manifest(id)?,
                RecordName::Derived(id) => self.store.remove_derived(id)?,
                RecordName::Identity(id) => self.store.remove_identity(id)?,
            });
        }
        Ok(removed + self.collect_records()?)
    }

    /// Removes records of which nothing is left. Returns their number.
    pub(crate) fn collect_records(&self) -> Result<u64, StoreError> {
        self.store.collect_records_but(&self.records)
    }

    /// The object at this place of the last snapshot.
    pub(crate) fn entry(&self, object: u32) -> Option<&ObjectEntry> {
        self.catalog.listing().objects.get(object as usize)
    }

    /// Takes freed objects out of the catalog, so that nothing counts them until the next
    /// observation.
    pub(crate) fn forget(&mut self, gone: &BTreeSet<ObjectId>) {
        if gone.is_empty() {
            return;
        }
        let objects = &self.catalog.listing().objects;
        self.held.forget(|place| {
            let entry = objects.get(place);
            entry.is_some_and(|entry| gone.contains(&entry.object.id))
        });
        self.catalog.forget(|entry| gone.contains(&entry.object.id));
        self.index = index(&self.catalog.listing().objects);
        self.stored = None;
    }
}

/// Place of each object in the catalog.
type Index = HashMap<ObjectId, u32, BuildHasherDefault<FirstBytes>>;

/// Identifiers are hashes: their first bytes are as good as a hash of them, and a pass looks up
/// 100,000.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// The length of the identifier, which is the same for all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

fn index(objects: &[ObjectEntry]) -> Index {
    let ids = objects.iter().map(|entry| entry.object.id);
    ids.zip(0..).collect()
}

/// Time at which all of a model was last seen held, in milliseconds. Loads of processes that may
/// not set its record's time show only there.
fn held_ms(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> u64 {
    let objects = model.objects.iter();
    let objects_held = objects.filter_map(|object| snapshot.objects.get(*object as usize));
    objects_held
        .map(|object| object.last_use_ms)
        .min()
        .unwrap_or(0)
}

fn is_held(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> bool {
    let mut objects = model
        .objects
        .iter()
        .filter_map(|object| snapshot.objects.get(*object as usize));
    !model.objects.is_empty() && objects.all(|object| object.held)
}

/// Length of a model's objects that are in the store.
pub(crate) fn resident_bytes(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> u64 {
    let objects = model
        .objects
        .iter()
        .filter_map(|object| snapshot.objects.get(*object as usize));
    objects.map(|object| object.len_bytes).sum()
}
