//! A list of a store's objects kept from one look to the next.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use nix::dir::Type;
use nix::sys::stat::fstat;

use crate::error::{IoError, StoreError};
use crate::folder::Folder;
use crate::scan::{Listed, ObjectEntry, ObjectListing, object_entry, parse_object_name, time};
use crate::store::Store;

/// Two changes of a folder within one tick of the kernel's clock have one time stamp. Far longer than any
/// tick.
const CLOCK_TICK: Duration = Duration::from_secs(1);

/// Most vanished objects in a row that a listing skips.
const MAX_GAP: usize = 4;

/// The objects of a store as of the last [`Store::refresh`]. Objects never change, so what was looked at once need not be
/// looked at again.
#[derive(Debug, Default)]
pub struct Catalog {
    listing: ObjectListing,
    /// The folder's time stamp, where no later change can have the same one.
    stamp: Option<SystemTime>,
}

/// The part of a store to look at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// Nothing where the folder has not changed, and what is new where it has.
    Changes,
    /// Everything, which also finds objects that someone has tampered with.
    Everything,
}

impl Catalog {
    /// The objects and what else lies in their folder.
    pub fn listing(&self) -> &ObjectListing {
        &self.listing
    }

    /// Takes out an object that was reclaimed or quarantined, so that it is not listed until the next
    /// look.
    pub fn forget(&mut self, gone: impl Fn(&ObjectEntry) -> bool) {
        self.listing.objects.retain(|entry| !gone(entry));
    }
}

impl Store {
    /// Brings a catalog of this store's objects up to date. `false` when nothing had to be done.
    pub fn refresh(&self, catalog: &mut Catalog, how: Refresh) -> Result<bool, StoreError> {
        let began = SystemTime::now();
        let folder = fstat(self.folder(Folder::Objects))
            .map_err(|error| IoError::new("stat", self.objects_dir(), error))?;
        let changed = time(folder.st_mtime, folder.st_mtime_nsec);
        if how == Refresh::Changes && catalog.stamp == Some(changed) {
            return Ok(false);
        }
        // Should the listing fail, the next look starts anew.
        catalog.stamp = None;
        let mut known = KnownObjects::new(match how {
            Refresh::Changes => std::mem::take(&mut catalog.listing.objects),
            Refresh::Everything => Vec::new(),
        });
        let mut listing = ObjectListing::default();
        listing.objects.reserve(known.objects.len());
        self.each_entry(Folder::Objects, |entry| {
            if let Some(seen) = known.find(entry) {
                listing.objects.push(seen);
            } else if let Some(stat) = entry.stat()? {
                listing.add(
                    entry.name(),
                    object_entry(folder.st_uid, &entry.name(), &stat),
                );
            }
            Ok(())
        })?;
        let settled = began
            .duration_since(changed)
            .is_ok_and(|age| age > CLOCK_TICK);
        *catalog = Catalog {
            listing,
            stamp: settled.then_some(changed),
        };
        Ok(true)
    }
}

/// The objects of the last look.
struct KnownObjects {
    objects: Vec<ObjectEntry>,
    /// Index at which the next one is expected: a folder is listed in the same order each time.
    next: usize,
    /// By inode; made when the order turns out to be another.
    by_inode: Option<HashMap<u64, usize>>,
}

impl KnownObjects {
    fn new(objects: Vec<ObjectEntry>) -> Self {
        Self {
            objects,
            next: 0,
            by_inode: None,
        }
    }

    /// The object with this inode and this name.
    fn find(&mut self, entry: &Listed<'_>) -> Option<ObjectEntry> {
        let place = self.place_of(entry.inode())?;
        let seen = *self.at(place)?;
        let (id, crc) = parse_object_name(entry.text()?)?;
        let same =
            entry.kind() == Some(Type::File) && (id, crc) == (seen.object.id, seen.object.crc);
        same.then_some(seen)
    }

    fn at(&self, place: usize) -> Option<&ObjectEntry> {
        self.objects.get(place)
    }

    fn place_of(&mut self, inode: u64) -> Option<usize> {
        // What is new comes first or last, and what has gone leaves a gap.
        let ahead = self.next..self.objects.len().min(self.next + MAX_GAP);
        let mut near = ahead.filter(|place| self.at(*place).is_some_and(|at| at.inode == inode));
        let place = near.next().or_else(|| self.anywhere(inode))?;
        self.next = place + 1;
        Some(place)
    }

    fn anywhere(&mut self, inode: u64) -> Option<usize> {
        let objects = &self.objects;
        let by_inode = self.by_inode.get_or_insert_with(|| {
            let inodes = objects.iter().map(|entry| entry.inode);
            inodes.zip(0..).collect()
        });
        by_inode.get(&inode).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Access;
    use crate::store::CreateOptions;

    fn sorted(listing: &ObjectListing) -> Vec<ObjectEntry> {
        let mut objects = listing.objects.clone();
        objects.sort_by_key(|entry| entry.object.id);
        objects
    }

    #[test]
    fn a_catalog_is_what_a_listing_is() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let mut catalog = Catalog::default();
        for number in 0_u32..20 {
            let published = store.publish(&number.to_le_bytes(), Access::ReadOnly);
            let object = published.unwrap().object;
            if number % 3 == 0 {
                store.reclaim(&object).unwrap();
            }
            if number == 10 {
                std::fs::write(store.objects_dir().join("foreign"), "x").unwrap();
            }
            for how in [Refresh::Changes, Refresh::Everything] {
                store.refresh(&mut catalog, how).unwrap();
                let plain = store.objects().unwrap();
                assert_eq!(sorted(catalog.listing()), sorted(&plain));
                assert_eq!(catalog.listing().foreign, plain.foreign);
            }
        }
    }

    #[test]
    fn an_unchanged_folder_is_not_listed_again_once_its_stamp_is_certain() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        store.publish(b"one", Access::ReadOnly).unwrap();
        let mut catalog = Catalog::default();
        // The folder has just been changed: another change could have the same stamp.
        assert!(store.refresh(&mut catalog, Refresh::Changes).unwrap());
        assert!(store.refresh(&mut catalog, Refresh::Changes).unwrap());
        std::thread::sleep(CLOCK_TICK + Duration::from_millis(50));
        assert!(store.refresh(&mut catalog, Refresh::Changes).unwrap());
        assert!(!store.refresh(&mut catalog, Refresh::Changes).unwrap());
        assert!(store.refresh(&mut catalog, Refresh::Everything).unwrap());
        store.publish(b"two", Access::ReadOnly).unwrap();
        assert!(store.refresh(&mut catalog, Refresh::Changes).unwrap());
        assert_eq!(catalog.listing().objects.len(), 2);
    }
}
