//! Numbers of holders, from the kernel's list of locks, as complete as that can be read.

use std::collections::HashSet;

use tetris_agent::Store;
use tetris_store_layout::{Holders, IoError, ObjectEntry, ObjectRef};

use super::error::Result;
use super::output;

/// Numbers of holders of some objects.
#[derive(Debug)]
pub(crate) struct HolderCounts {
    holders: Holders,
    /// Held objects of which the list, as far as it was read, has no lock.
    unlisted: HashSet<ObjectRef>,
}

impl HolderCounts {
    /// Counts the holders of objects of `store`.
    pub(crate) fn of<'a>(
        store: &Store,
        objects: impl IntoIterator<Item = &'a ObjectEntry>,
    ) -> Result<Self> {
        Self::with(Holders::read()?, objects, |object| store.is_held(object))
    }

    /// As [`HolderCounts::of`], for objects in quarantine.
    pub(crate) fn of_quarantined<'a>(
        store: &Store,
        objects: impl IntoIterator<Item = &'a ObjectEntry>,
    ) -> Result<Self> {
        let is_held = |object: &ObjectRef| store.is_quarantined_held(object);
        Self::with(Holders::read()?, objects, is_held)
    }

    fn with<'a>(
        holders: Holders,
        objects: impl IntoIterator<Item = &'a ObjectEntry>,
        is_held: impl Fn(&ObjectRef) -> std::result::Result<bool, IoError>,
    ) -> Result<Self> {
        let mut unlisted = HashSet::new();
        if !holders.is_complete() {
            for entry in objects {
                if holders.of(entry) == 0 && is_held(&entry.object)? {
                    unlisted.insert(entry.object);
                }
            }
        }
        Ok(Self { holders, unlisted })
    }

    /// Number of holders of an object. Where the list was not read to its end it is the least that there can be.
    pub(crate) fn number(&self, entry: &ObjectEntry) -> u64 {
        let unlisted = self.unlisted.contains(&entry.object);
        self.holders.of(entry).max(u64::from(unlisted))
    }

    /// Number of creation locks of the store that are held: files that are being read.
    pub(crate) fn creation_locks(&self, store: &Store) -> u64 {
        self.holders.creation_locks(store)
    }

    /// Returns true if the list was read to its end.
    fn is_complete(&self) -> bool {
        self.holders.is_complete()
    }

    /// `complete` or `incomplete`, for programs and people.
    pub(crate) fn word(&self) -> &'static str {
        if self.is_complete() {
            "complete"
        } else {
            "incomplete"
        }
    }

    /// Reports on stderr that the numbers are too low, if they may be.
    pub(crate) fn note(&self) {
        if !self.is_complete() {
            output::warning(format_args!(
                "the machine has more than {} locks, and the rest is not counted: numbers of holders and savings are too low; `lslocks` names the processes with locks",
                Holders::MAX_LINES
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_store_layout::{Access, CreateOptions};

    #[test]
    fn an_object_that_the_list_misses_has_a_holder_all_the_same() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let mapped = store.publish(b"held", Access::ReadOnly).unwrap();
        drop(store.publish(b"free", Access::ReadOnly).unwrap());
        let objects = store.objects().unwrap().objects;
        // Nothing was read of it.
        let counts =
            HolderCounts::with(Holders::default(), &objects, |object| store.is_held(object));
        let counts = counts.unwrap();
        assert!(!counts.is_complete());
        for entry in &objects {
            let expected = u64::from(entry.object == mapped.object);
            assert_eq!(counts.number(entry), expected);
        }
    }
}
