//! Quarantine beside processes that reclaim and publish the same object (LAYOUT.md 5.5).

use std::fs::{File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use tempfile::TempDir;
use tetris_store_layout::{Access, CreateOptions, Store};

fn new_store() -> (TempDir, Store) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    (dir, store)
}

/// The lock that a reclaimer has after R2.
fn lock_as_a_reclaimer(path: &Path) -> File {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    lock(&file, libc::F_WRLCK);
    file
}

fn lock(file: &File, kind: libc::c_int) {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).unwrap();
}

#[test]
fn a_process_that_can_only_read_keeps_no_damage_in_place() {
    let (dir, store) = new_store();
    let object = store.publish(b"damaged", Access::ReadOnly).unwrap().object;
    let locks = dir.path().join("locks");
    let reader = File::open(&locks).unwrap();
    lock(&reader, libc::F_RDLCK);
    assert!(store.quarantine(&object).unwrap());

    // A writer is another one who sets it aside, and is waited for.
    drop(reader);
    let object = store.publish(b"damaged", Access::ReadOnly).unwrap().object;
    let writer = File::options().write(true).open(&locks).unwrap();
    lock(&writer, libc::F_WRLCK);
    store.quarantine(&object).unwrap_err();
}

#[test]
fn an_object_that_a_reclaimer_is_about_to_unlink_keeps_its_name() {
    let (_dir, store) = new_store();
    let object = store.publish(b"damaged", Access::ReadOnly).unwrap().object;
    let path = store.object_path(&object);
    let reclaimer = lock_as_a_reclaimer(&path);
    // Otherwise another could take the name, and the reclaimer would unlink that.
    let error = store.quarantine(&object).unwrap_err();
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    assert!(path.exists());
    drop(reclaimer);
    assert!(store.quarantine(&object).unwrap());
    assert!(!path.exists());
}

#[test]
fn a_referenced_object_is_quarantined_and_its_reference_lasts() {
    let (_dir, store) = new_store();
    let mapped = store.publish(b"in use", Access::ReadOnly).unwrap();
    assert!(store.quarantine(&mapped.object).unwrap());
    assert!(!store.quarantine(&mapped.object).unwrap());
    assert_eq!(&*mapped.mapping, b"in use");
    assert!(
        store
            .map(&mapped.object, Access::ReadOnly)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_mapping_is_current_as_long_as_its_object_has_its_name() {
    let (_dir, store) = new_store();
    let object = store.publish(b"damaged", Access::ReadOnly).unwrap().object;
    let map = || store.map(&object, Access::ReadOnly).unwrap().unwrap();
    let old = map();
    assert!(store.is_current(&object, &old));
    let mut other = object;
    other.crc ^= 1;
    assert!(!store.is_current(&other, &old));
    assert!(store.quarantine(&object).unwrap());
    assert!(!store.is_current(&object, &old));
    store.publish(b"damaged", Access::ReadOnly).unwrap();
    assert!(!store.is_current(&object, &old), "the name is another's");
    assert!(store.is_current(&object, &map()));
}
