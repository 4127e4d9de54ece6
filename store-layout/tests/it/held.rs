//! Answers of objects to the question who holds them (LAYOUT.md 4).

use std::fs::File;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::sys::stat::Mode;
use tempfile::TempDir;
use tetris_store_layout::{Access, CreateOptions, Reclaimed, Store};

fn new_store() -> (TempDir, Store) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    (dir, store)
}

fn read_lock(start: i64, len: i64) -> libc::flock {
    libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    }
}

#[test]
fn an_object_says_if_anybody_holds_it_even_this_process() {
    let (_dir, store) = new_store();
    let published = store.publish(b"held", Access::ReadOnly).unwrap();
    let object = published.object;
    let second = store.map(&object, Access::ReadOnly).unwrap().unwrap();
    assert!(store.is_held(&object).unwrap());
    // To ask takes no lock, and loses none.
    assert!(store.is_held(&object).unwrap());
    drop(published.mapping);
    assert!(store.is_held(&object).unwrap());
    assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
    drop(second);
    assert!(!store.is_held(&object).unwrap());
    assert!(matches!(
        store.reclaim(&object).unwrap(),
        Reclaimed::Freed { .. }
    ));
    assert!(!store.is_held(&object).unwrap(), "it is gone");
}

#[test]
fn a_lock_on_any_byte_counts_because_reclaim_meets_it() {
    let (_dir, store) = new_store();
    let object = store.publish(b"locked", Access::ReadOnly).unwrap().object;
    for lock in [read_lock(0, 1), read_lock(5, 0), read_lock(1 << 40, 1)] {
        let file = File::open(store.object_path(&object)).unwrap();
        fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
        assert!(store.is_held(&object).unwrap(), "{lock:?}");
        assert_eq!(store.reclaim(&object).unwrap(), Reclaimed::Referenced);
        drop(file);
        assert!(!store.is_held(&object).unwrap(), "{lock:?}");
    }
}

#[test]
fn objects_in_quarantine_can_be_asked_as_well() {
    let (_dir, store) = new_store();
    let published = store.publish(b"damaged", Access::ReadOnly).unwrap();
    let object = published.object;
    assert!(!store.is_quarantined_held(&object).unwrap());
    assert!(store.quarantine(&object).unwrap());
    assert!(store.is_quarantined_held(&object).unwrap());
    assert!(!store.is_held(&object).unwrap());
    drop(published.mapping);
    assert!(!store.is_quarantined_held(&object).unwrap());
}

#[test]
fn a_link_with_an_objects_name_is_not_followed() {
    let (dir, store) = new_store();
    let object = store.publish(b"real", Access::ReadOnly).unwrap().object;
    let path = store.object_path(&object);
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let error = store.is_held(&object).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
}

/// Assumption: a descriptor that only names a file cannot be asked, so the object must be opened.
#[test]
fn a_descriptor_without_access_cannot_be_asked() {
    let (_dir, store) = new_store();
    let object = store.publish(b"named", Access::ReadOnly).unwrap().object;
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let named = open(&store.object_path(&object), flags, Mode::empty()).unwrap();
    let mut lock = read_lock(0, 0);
    let asked = fcntl(&named, FcntlArg::F_OFD_GETLK(&mut lock));
    assert_eq!(asked, Err(Errno::EBADF));
}
