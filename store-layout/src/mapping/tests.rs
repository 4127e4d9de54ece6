//! Pages that may be registered, and what stays of that.

use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use nix::sys::mman::{MmapAdvise, madvise};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tempfile::TempDir;

use super::*;
use crate::{CreateOptions, ObjectRef, Reclaimed, Store};

/// Longer than a page, and no multiple of one.
const BYTES: usize = 3 * 4096 + 5;

fn published() -> (TempDir, Store, ObjectRef) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(folder.path(), &CreateOptions::default()).unwrap();
    let object = store.publish(&[7; BYTES], Access::ReadOnly).unwrap().object;
    (folder, store, object)
}

fn map(store: &Store, object: &ObjectRef) -> Mapping {
    store.map(object, Access::Registrable).unwrap().unwrap()
}

/// The same, or a reason why there is none.
fn registrable(store: &Store, object: &ObjectRef) -> Option<Mapping> {
    let mapping = map(store, object);
    let can = mapping.access() == Access::Registrable;
    if !can {
        eprintln!("skipped: this user cannot open objects for writing (needs CAP_DAC_OVERRIDE)");
    }
    can.then_some(mapping)
}

/// Access of this process to pages, as in `r--s`.
fn mode(bytes: &[u8]) -> String {
    let address = bytes.as_ptr() as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let covers = |line: &&str| {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(from)..number(to)).contains(&address)
    };
    let line = maps.lines().find(covers).unwrap();
    line.split(' ').nth(1).unwrap().to_owned()
}

/// Looks each page up as a write would: the kernel does the same when it pins pages for writing.
fn look_up_for_writing(bytes: &[u8]) -> nix::Result<()> {
    let start = NonNull::from(bytes).cast();
    // SAFETY: the pages are mapped, and looking them up changes none of their bytes.
    unsafe { madvise(start, bytes.len(), MmapAdvise::MADV_POPULATE_WRITE) }
}

fn times(path: &Path) -> [i64; 4] {
    let file = std::fs::metadata(path).unwrap();
    [
        file.mtime(),
        file.mtime_nsec(),
        file.ctime(),
        file.ctime_nsec(),
    ]
}

#[test]
fn pages_are_writable_for_one_call_and_nothing_else_changes() {
    let (_folder, store, object) = published();
    let Some(mapping) = registrable(&store, &object) else {
        return;
    };
    let before = times(&store.object_path(&object));
    assert_eq!(mode(&mapping), "r--s");
    assert!(look_up_for_writing(&mapping).is_err());
    let during = mapping.while_writable(0..mapping.len(), |bytes| {
        look_up_for_writing(bytes).unwrap();
        mode(bytes)
    });
    assert_eq!(during.unwrap(), "rw-s");
    assert_eq!(mode(&mapping), "r--s");
    assert!(look_up_for_writing(&mapping).is_err());
    assert_eq!(mapping[..], [7; BYTES]);
    assert_eq!(times(&store.object_path(&object)), before);
}

#[test]
fn the_other_pages_of_a_mapping_stay_read_only() {
    let (_folder, store, object) = published();
    let Some(mapping) = registrable(&store, &object) else {
        return;
    };
    let (part, end) = (4096..8192, 8192..BYTES);
    let modes = |bytes: &[u8]| [0, 4096, 8192].map(|at| mode(&bytes[at..]));
    let during = mapping.while_writable(part, |bytes| {
        assert_eq!(bytes.len(), 4096);
        modes(&mapping)
    });
    assert_eq!(during.unwrap(), ["r--s", "rw-s", "r--s"]);
    assert_eq!(modes(&mapping), ["r--s"; 3]);
    let during = mapping.while_writable(end, |_| modes(&mapping));
    assert_eq!(during.unwrap(), ["r--s", "r--s", "rw-s"]);
    assert_eq!(modes(&mapping), ["r--s"; 3]);
    for outside in [0..0, 4096..BYTES + 1, 100..4096] {
        let refused = mapping.while_writable(outside, |_| ()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
    assert_eq!(modes(&mapping), ["r--s"; 3]);
}

#[test]
fn a_panic_leaves_pages_read_only() {
    let (_folder, store, object) = published();
    let Some(mapping) = registrable(&store, &object) else {
        return;
    };
    let run = || mapping.while_writable(0..mapping.len(), |_| panic!("expected by the test"));
    let panicked = catch_unwind(AssertUnwindSafe(run));
    assert!(panicked.is_err());
    assert_eq!(mode(&mapping), "r--s");
}

#[test]
fn it_references_the_object_as_any_mapping_does() {
    let (_folder, store, object) = published();
    let mut mapping = map(&store, &object);
    assert!(store.is_current(&object, &mapping));
    assert!(mapping.as_mut_slice().is_none());
    assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
    drop(mapping);
    let gone = store.reclaim(&object).unwrap();
    assert!(matches!(gone, Reclaimed::Freed { .. }), "{gone:?}");
    let absent = store.map(&object, Access::Registrable).unwrap();
    assert!(absent.is_none());
}

#[test]
fn other_mappings_never_become_writable() {
    let (_folder, store, object) = published();
    for access in [Access::ReadOnly, Access::CopyOnWrite] {
        let mapping = store.map(&object, access).unwrap().unwrap();
        let refused = mapping
            .while_writable(0..mapping.len(), |_| ())
            .unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }
}

/// As for a user who may only read.
#[test]
fn who_may_not_write_gets_a_read_only_mapping() {
    let (_folder, store, object) = published();
    let had = capabilities(None).unwrap();
    let mut less = had;
    less.effective.remove(CapabilitySet::DAC_OVERRIDE);
    set_capabilities(None, less).unwrap();
    let mapping = map(&store, &object);
    set_capabilities(None, had).unwrap();
    assert_eq!(mapping.access(), Access::ReadOnly);
    assert_eq!(mapping[..], [7; BYTES]);
    assert!(mapping.while_writable(0..mapping.len(), |_| ()).is_err());
}
