//! Learned state of policies, which survives the daemon's restarts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::RecordId;
use crate::histogram::Histogram;
use crate::plan::{Action, Reason};
use crate::snapshot::ModelSnapshot;

/// Version of the serialized form.
const VERSION: u32 = 1;
/// Most models of a store that are remembered, and of all stores. A model takes some hundred bytes, at most 1.2 KB.
const MOST_MODELS: usize = 8_192;
const MOST_MODELS_OF_ALL: usize = 8 * MOST_MODELS;

/// Learned state of all stores of a daemon. It follows deterministically from the events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    stores: BTreeMap<String, StoreState>,
}

/// Learned state of one store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreState {
    /// Greedy-Dual clock: the highest priority of an object freed for lack of room.
    clock: u64,
    models: BTreeMap<RecordId, ModelState>,
}

/// Learned state of one model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelState {
    /// Number of loads since the model came into the store. Reset when its last object is freed, as
    /// in FaasCache.
    uses: u32,
    /// The store's clock at the last load.
    clock: u64,
    /// Time at which its last holder released it, in milliseconds; `None` after a later load.
    idle_since_ms: Option<u64>,
    /// Time of its last load or release, in milliseconds.
    seen_ms: u64,
    idle: Histogram,
}

/// An event of a model in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A load used the model, from the store or not.
    Loaded {
        /// The model.
        model: RecordId,
        /// Time of the load, in milliseconds.
        at_ms: u64,
    },
    /// The last holder released the model: an idle period begins.
    Released {
        /// The model.
        model: RecordId,
        /// Time of the release, in milliseconds.
        at_ms: u64,
    },
    /// The last of its objects was freed.
    Gone {
        /// The model.
        model: RecordId,
    },
}

/// The reason a persisted state cannot be read. The daemon may start with an empty state and learn
/// again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeStateError {
    /// It is not output of [`State::encode`].
    #[error("persisted state of the reclaimer is damaged: {0}")]
    Damaged(#[from] serde_json::Error),
    /// Another version wrote it.
    #[error("persisted state of the reclaimer: expected version {VERSION}, found {found}")]
    Version {
        /// The version.
        found: u32,
    },
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    state: T,
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

impl State {
    /// Records an event in the store of this name. Only the first load after a release ends an idle
    /// period. An event older than its predecessor counts as simultaneous.
    pub fn observe(&mut self, store: &str, event: Event) {
        if let Event::Loaded { model, .. } | Event::Released { model, .. } = event {
            self.make_place(store, model);
        }
        let store = self.store_mut(store);
        match event {
            Event::Loaded { model, at_ms } => {
                let clock = store.clock;
                let model = store.models.entry(model).or_default();
                model.uses = model.uses.saturating_add(1);
                model.clock = clock;
                model.seen_ms = model.seen_ms.max(at_ms);
                if let Some(since_ms) = model.idle_since_ms.take() {
                    model.idle.record(at_ms.saturating_sub(since_ms));
                }
            }
            Event::Released { model, at_ms } => {
                let model = store.models.entry(model).or_default();
                model.idle_since_ms = Some(at_ms);
                model.seen_ms = model.seen_ms.max(at_ms);
            }
            Event::Gone { model } => {
                if let Some(model) = store.models.get_mut(&model) {
                    model.uses = 0;
                }
            }
        }
    }

    /// Forgets models if there is no place for another one: half of those of the store, or of the one with the most, which were
    /// not seen for longest.
    fn make_place(&mut self, name: &str, model: RecordId) {
        let known = self.stores.get(name);
        if known.is_some_and(|store| store.models.contains_key(&model)) {
            return;
        }
        if known.is_some_and(|store| store.models.len() >= MOST_MODELS) {
            self.store_mut(name).forget_half();
        }
        let all: usize = self.stores.values().map(StoreState::models).sum();
        if all >= MOST_MODELS_OF_ALL
            && let Some(largest) = self.stores.values_mut().max_by_key(|store| store.models())
        {
            largest.forget_half();
        }
    }

    /// Records that an action was carried out in the store of this name. An expired object shows
    /// nothing about the value of room; every other reason advances the clock.
    pub fn freed(&mut self, store: &str, action: &Action) {
        if action.reason != Reason::KeepAliveExpired {
            let store = self.store_mut(store);
            store.clock = store.clock.max(action.priority);
        }
    }

    /// Forgets models without an event since `since_ms`, because their records may no longer exist.
    /// Bounds the state's size.
    pub fn forget_unseen(&mut self, since_ms: u64) {
        for store in self.stores.values_mut() {
            store.models.retain(|_, model| model.seen_ms >= since_ms);
        }
    }

    /// Forgets the store of this name, which is gone for good.
    pub fn forget_store(&mut self, name: &str) {
        self.stores.remove(name);
    }

    /// The part about the store of this name.
    pub fn part(&self, name: &str) -> Self {
        let mut part = Self::default();
        if let Some(store) = self.stores.get(name) {
            part.stores.insert(name.to_owned(), store.clone());
        }
        part
    }

    /// Replaces the state of the store of this name by that of `other`.
    pub fn take_over(&mut self, name: &str, mut other: Self) {
        if let Some(store) = other.stores.remove(name) {
            self.stores.insert(name.to_owned(), store);
        }
    }

    /// Returns the state of the store of this name.
    pub fn store(&self, name: &str) -> Option<&StoreState> {
        self.stores.get(name)
    }

    /// Encodes the state as JSON with a version. Numbers are integers, so nothing is rounded.
    ///
    /// # Errors
    ///
    /// A JSON error, which cannot occur for this type.
    pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Versioned {
            version: VERSION,
            state: self,
        })
    }

    /// Decodes the output of [`Self::encode`].
    ///
    /// # Errors
    ///
    /// [`DecodeStateError`] if the bytes are damaged or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeStateError> {
        // The version comes first, because the rest may have another meaning in other versions.
        let VersionOnly { version: found } = serde_json::from_slice(bytes)?;
        if found != VERSION {
            return Err(DecodeStateError::Version { found });
        }
        let versioned: Versioned<StoresOnly> = serde_json::from_slice(bytes)?;
        let stores = versioned.state.stores;
        Ok(Self { stores })
    }

    fn store_mut(&mut self, name: &str) -> &mut StoreState {
        // The store is usually known, and then no copy of its name is needed.
        if !self.stores.contains_key(name) {
            self.stores.insert(name.to_owned(), StoreState::default());
        }
        self.stores.entry(name.to_owned()).or_default()
    }
}

/// Separate from [`State`], because `deny_unknown_fields` does not work with `flatten`.
#[derive(Deserialize)]
struct StoresOnly {
    stores: BTreeMap<String, StoreState>,
}

impl StoreState {
    fn forget_half(&mut self) {
        let mut seen: Vec<u64> = self.models.values().map(|model| model.seen_ms).collect();
        let middle = seen.len() / 2;
        let (_, median, _) = match seen.len() {
            0 => return,
            _ => seen.select_nth_unstable(middle),
        };
        let median = *median;
        let mut most = seen.len().saturating_sub(middle);
        // Of those seen at the same time, as many as there is place for.
        self.models.retain(|_, model| {
            let stays = model.seen_ms >= median && most > 0;
            most = most.saturating_sub(usize::from(stays));
            stays
        });
    }

    /// Greedy-Dual clock.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Returns the state of a model.
    pub fn model(&self, id: &RecordId) -> Option<&ModelState> {
        self.models.get(id)
    }

    /// Number of known models.
    pub fn models(&self) -> usize {
        self.models.len()
    }
}

impl ModelState {
    /// Number of loads since the model came into the store.
    pub fn uses(&self) -> u32 {
        self.uses
    }

    /// The store's Greedy-Dual clock at the last load.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Histogram of its idle times.
    pub fn idle(&self) -> &Histogram {
        &self.idle
    }
}

/// The two parts of a model's Greedy-Dual priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Worth {
    /// The store's clock at the last load.
    pub(crate) clock: u64,
    /// Frequency times reload cost over size: milliseconds of reload per GiB.
    pub(crate) value: u64,
}

impl Worth {
    /// Computes FaasCache's priority of a model, in integers, so that the order is the same
    /// everywhere. A model without events counts as loaded once, just now.
    pub(crate) fn of(model: &ModelSnapshot, store: Option<&StoreState>) -> Self {
        let known = store.and_then(|store| store.models.get(&model.id));
        let (uses, clock) = known.map_or_else(
            || (1, store.map_or(0, |store| store.clock)),
            |known| (known.uses.max(1), known.clock),
        );
        let cost = u128::from(uses) * u128::from(model.reload_ms);
        let value = cost.saturating_mul(1 << 30) / u128::from(model.total_bytes.max(1));
        Self {
            clock,
            value: u64::try_from(value).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::{ManifestId, ObjectId};

    use super::*;

    fn id(name: &str) -> RecordId {
        RecordId::Manifest(ManifestId::of(name.as_bytes()))
    }

    fn loaded(name: &str, at_ms: u64) -> Event {
        Event::Loaded {
            model: id(name),
            at_ms,
        }
    }

    fn released(name: &str, at_ms: u64) -> Event {
        Event::Released {
            model: id(name),
            at_ms,
        }
    }

    fn action(reason: Reason, priority: u64) -> Action {
        Action {
            store: 0,
            object: 0,
            id: ObjectId::of(b""),
            bytes: 1,
            reason,
            priority,
        }
    }

    fn idle_periods(state: &State, name: &str) -> u64 {
        let store = state.store("s").unwrap();
        store.model(&id(name)).unwrap().idle().in_bounds()
    }

    #[test]
    fn an_idle_period_ends_with_the_first_load_after_a_release() {
        let mut state = State::default();
        state.observe("s", loaded("a", 0));
        state.observe("s", loaded("a", 5));
        assert_eq!(idle_periods(&state, "a"), 0);
        state.observe("s", released("a", 10));
        state.observe("s", loaded("a", 20));
        state.observe("s", loaded("a", 30));
        assert_eq!(idle_periods(&state, "a"), 1);
        // The clock was set back.
        state.observe("s", released("a", 40));
        state.observe("s", loaded("a", 35));
        assert_eq!(idle_periods(&state, "a"), 2);
    }

    #[test]
    fn only_what_room_was_needed_for_moves_the_clock_and_never_back() {
        let mut state = State::default();
        state.freed("s", &action(Reason::KeepAliveExpired, 9));
        assert!(state.store("s").is_none());
        state.freed("s", &action(Reason::Cost, 7));
        state.freed("s", &action(Reason::Pressure, 5));
        assert_eq!(state.store("s").unwrap().clock(), 7);
    }

    #[test]
    fn a_model_that_is_gone_keeps_its_idle_times_and_loses_its_frequency() {
        let mut state = State::default();
        for at_ms in [0, 100, 200] {
            state.observe("s", loaded("a", at_ms));
            state.observe("s", released("a", at_ms + 50));
        }
        state.observe("s", Event::Gone { model: id("a") });
        let model = state.store("s").unwrap().model(&id("a")).unwrap();
        assert_eq!((model.uses(), model.idle().in_bounds()), (0, 2));
    }

    #[test]
    fn models_unseen_for_long_are_forgotten() {
        let mut state = State::default();
        state.observe("s", loaded("a", 10));
        state.observe("s", loaded("b", 20));
        state.forget_unseen(15);
        let store = state.store("s").unwrap();
        assert!(store.model(&id("a")).is_none() && store.model(&id("b")).is_some());
    }

    #[test]
    fn models_of_one_store_and_of_all_have_limits() {
        let mut state = State::default();
        for number in 0..3 * MOST_MODELS as u64 {
            state.observe("s", loaded(&number.to_string(), number));
        }
        let store = state.store("s").unwrap();
        assert!(store.models() <= MOST_MODELS && store.models() >= MOST_MODELS / 2);
        let last = (3 * MOST_MODELS - 1).to_string();
        assert!(store.model(&id(&last)).is_some() && store.model(&id("0")).is_none());
        for store in 0..10 {
            for number in 0..MOST_MODELS {
                let name = format!("{store} {number}");
                state.observe(&store.to_string(), loaded(&name, 7));
            }
        }
        let all: usize = state.stores.values().map(StoreState::models).sum();
        assert!(all <= MOST_MODELS_OF_ALL, "{all}");
    }

    #[test]
    fn worth_grows_with_use_and_cost_and_shrinks_with_size() {
        let model = |reload_ms, total_bytes| ModelSnapshot {
            id: id("a"),
            objects: Vec::new(),
            total_bytes,
            last_use_ms: 0,
            reload_ms,
            warm: false,
        };
        let mut state = State::default();
        let gib = 1 << 30;
        let value = |state: &State, model: &ModelSnapshot| Worth::of(model, state.store("s")).value;
        assert_eq!(value(&state, &model(1000, gib)), 1000);
        assert_eq!(value(&state, &model(1000, 2 * gib)), 500);
        (0..3).for_each(|at_ms| state.observe("s", loaded("a", at_ms)));
        assert_eq!(value(&state, &model(1000, gib)), 3000);
        assert_eq!(value(&state, &model(u64::MAX, 0)), u64::MAX);
    }

    #[test]
    fn kept_state_is_checked() {
        let decode = |text: &str| State::decode(text.as_bytes());
        let Err(error) = decode(r#"{"version":2,"anything":[]}"#) else {
            panic!("version 2 was read");
        };
        let expected = "persisted state of the reclaimer: expected version 1, found 2";
        assert_eq!(error.to_string(), expected);
        for damaged in [
            "",
            "{}",
            "[]",
            r#"{"version":1}"#,
            r#"{"version":1,"stores":{"s":{"clock":-1,"models":{}}}}"#,
            r#"{"version":1,"stores":{"s":{"clock":1,"models":{"manifest-1":{}}}}}"#,
        ] {
            assert!(decode(damaged).is_err(), "{damaged}");
        }
    }
}
