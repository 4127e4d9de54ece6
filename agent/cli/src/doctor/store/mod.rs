//! The store: its place, its owner, its room and pages, and the daemon that looks after it.

mod contents;
mod daemon;
mod location;
mod pages;
mod publishing;
mod room;

use std::collections::HashSet;
use std::time::Duration;

use tetris_store_layout::{ObjectEntry, ObjectRef, Store, Usage};

use super::check::{Check, Section};
use tetris_agent::daemon::{DaemonClient, DaemonError};
use tetris_agent::store_location::{StoreLocation, StoreLocationError};

pub(super) use publishing::Publishing;

/// Longest wait for the daemon's greeting.
const GREETING: Duration = Duration::from_secs(5);

/// A store as it was at one moment, or the reason that it cannot be used.
pub(super) struct SeenStore {
    pub(super) opened: Result<OpenStore, StoreLocationError>,
}

/// A store that is open.
pub(super) struct OpenStore {
    pub(super) store: Store,
    /// Version of the daemon, or why there is none.
    pub(super) daemon: Result<String, DaemonError>,
    /// The objects. Empty where they cannot be listed, which `contents` reports.
    pub(super) objects: Vec<ObjectEntry>,
    /// Those that someone holds, or that cannot be asked.
    pub(super) held: HashSet<ObjectRef>,
    /// Room of its file system. All zero where that cannot be asked, which `room` reports.
    pub(super) usage: Usage,
}

impl SeenStore {
    /// Looks at the store at `location`.
    pub(super) fn at(location: &StoreLocation) -> Self {
        Self {
            opened: location.open().map(OpenStore::of),
        }
    }

    /// The store, if it can be used.
    pub(super) fn open(&self) -> Option<&OpenStore> {
        self.opened.as_ref().ok()
    }
}

impl OpenStore {
    fn of(store: Store) -> Self {
        let objects = store.objects().map(|listing| listing.objects);
        let objects = objects.unwrap_or_default();
        let refs = objects.iter().map(|entry| entry.object);
        let in_use = refs.filter(|object| store.is_held(object).unwrap_or(true));
        Self {
            daemon: DaemonClient::of_store(&store, GREETING).version(),
            held: in_use.collect(),
            objects,
            usage: store.usage().unwrap_or_default(),
            store,
        }
    }

    /// The way in which loads of this process publish.
    pub(super) fn publishing(&self) -> Publishing {
        Publishing::of(self.store.is_writable(), &self.daemon)
    }

    /// Bytes of objects that no one holds: room, if it is needed.
    pub(super) fn freeable(&self) -> u64 {
        self.freeable_without(|_| false)
    }

    /// As [`OpenStore::freeable`], without the objects that are `wanted`.
    pub(super) fn freeable_without(&self, wanted: impl Fn(&ObjectRef) -> bool) -> u64 {
        let free =
            |entry: &&ObjectEntry| !self.held.contains(&entry.object) && !wanted(&entry.object);
        self.objects
            .iter()
            .filter(free)
            .map(|entry| entry.allocated)
            .sum()
    }
}

/// The checks of the store at `location`.
pub(super) fn section(location: &StoreLocation, seen: &SeenStore) -> Section {
    let mut section = Section::new("store", Some(location.dir.display().to_string()));
    section.checks.push(location::check(location));
    match &seen.opened {
        Ok(open) => section.checks.extend(checks(open)),
        Err(error) => section.checks.push(location::unusable(error)),
    }
    section
}

fn checks(open: &OpenStore) -> Vec<Check> {
    let mut checks = vec![location::layout(&open.store)];
    checks.extend(publishing::checks(open));
    checks.push(daemon::check(open));
    checks.push(room::check(open));
    checks.push(pages::check(open));
    checks.extend(contents::checks(open));
    checks
}
