//! Publish, map, reclaim and records as their callers see them (LAYOUT.md 5).

use std::convert::Infallible;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tetris_store_layout::{
    Access, CreateOptions, DerivedKey, Fault, Holders, MapError, ObjectRef, PublishError,
    PublishOutcome, Reclaimed, Store, StoreError, TensorId, Verified, VerifyDepth,
};

fn new_store() -> (TempDir, Store) {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    (dir, store)
}

/// Requires that an object has `expected` holders. The kernel hands `/proc/locks` out in pages, so while
/// other tests lock and unlock, one look may miss a holder or count it twice: it is looked again.
fn require_holders(store: &Store, object: &ObjectRef, expected: u64) {
    const LOOKS: usize = 1_000;
    let listing = store.objects().unwrap();
    let entry = listing.objects.iter().find(|entry| entry.object == *object);
    let found = (0..LOOKS).map(|_| Holders::read().unwrap().of(entry.unwrap()));
    let counts_until: Vec<u64> = found.take_while(|&found| found != expected).collect();
    assert!(
        counts_until.len() < LOOKS,
        "{expected} expected, found {counts_until:?}"
    );
}

#[test]
fn the_first_publisher_wins_and_the_second_shares() {
    let (_dir, store) = new_store();
    let first = store.publish(b"same bytes", Access::ReadOnly).unwrap();
    let second = store.publish(b"same bytes", Access::ReadOnly).unwrap();
    assert_eq!(
        (first.outcome, second.outcome),
        (PublishOutcome::New, PublishOutcome::Existing)
    );
    assert_eq!(first.object, second.object);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    require_holders(&store, &first.object, 2);
}

#[test]
fn an_object_is_read_only_and_named_after_its_bytes() {
    let (_dir, store) = new_store();
    let object = store.publish(b"weights", Access::ReadOnly).unwrap().object;
    let path = store.object_path(&object);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);
    assert_eq!(std::fs::read(&path).unwrap(), b"weights");
    let expected = format!(
        "{}-{:08x}",
        blake3::hash(b"weights"),
        crc32fast::hash(b"weights")
    );
    assert_eq!(path.file_name().unwrap().to_str().unwrap(), expected);
}

#[test]
fn a_referenced_object_is_never_reclaimed() {
    let (_dir, store) = new_store();
    for access in [Access::ReadOnly, Access::CopyOnWrite] {
        let published = store.publish(b"referenced", access).unwrap();
        assert_eq!(
            store.reclaim(&published.object).unwrap(),
            Reclaimed::Referenced
        );
        assert_eq!(&published.mapping[..], b"referenced");
        drop(published.mapping);
        let freed = store.reclaim(&published.object).unwrap();
        assert_eq!(freed, Reclaimed::Freed { bytes: 10 });
        assert_eq!(store.reclaim(&published.object).unwrap(), Reclaimed::Absent);
        assert!(store.map(&published.object, access).unwrap().is_none());
    }
}

#[test]
fn writes_to_a_copy_on_write_mapping_stay_private() {
    let (_dir, store) = new_store();
    let mut mine = store.publish(&[1; 5000], Access::CopyOnWrite).unwrap();
    mine.mapping.as_mut_slice().unwrap()[4999] = 2;
    let theirs = store.map(&mine.object, Access::ReadOnly).unwrap().unwrap();
    assert_eq!((mine.mapping[4999], theirs[4999]), (2, 1));
    let sound = store.verify(&mine.object, VerifyDepth::Full).unwrap();
    assert_eq!(sound, Verified::Sound);
    let mut theirs = theirs;
    assert!(theirs.as_mut_slice().is_none());
}

#[test]
fn an_empty_object_can_be_published_mapped_and_reclaimed() {
    let (_dir, store) = new_store();
    let empty = store.publish(b"", Access::ReadOnly).unwrap();
    assert!(empty.mapping.is_empty());
    assert_eq!(
        store.verify(&empty.object, VerifyDepth::Full).unwrap(),
        Verified::Sound
    );
    assert_eq!(
        store.reclaim(&empty.object).unwrap(),
        Reclaimed::Freed { bytes: 0 }
    );
}

#[test]
fn dropping_a_staged_object_leaves_nothing() {
    let (dir, store) = new_store();
    let before = store.usage().unwrap();
    let staging = store.stage(64 << 20).unwrap();
    assert!(store.usage().unwrap().free < before.free, "P2b allocates");
    drop(staging);
    assert!(store.objects().unwrap().objects.is_empty());
    assert_eq!(
        std::fs::read_dir(dir.path().join("objects-v1"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_commit_with_missing_segments_is_refused() {
    let (_dir, store) = new_store();
    let staging = store.stage(10).unwrap();
    let mut writer = staging.segment(0);
    writer.write(b"short").unwrap();
    let digest = writer.finish();
    let error = staging.commit(&[digest], Access::ReadOnly).unwrap_err();
    assert!(
        matches!(
            error,
            PublishError::Length {
                expected: 10,
                found: 5
            }
        ),
        "{error}"
    );
}

#[test]
fn a_reference_is_not_inherited_by_a_program_that_was_merely_started() {
    let (_dir, store) = new_store();
    let published = store.publish(b"shared", Access::ReadOnly).unwrap();
    let object = published.object;
    require_holders(&store, &object, 1);
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    drop(published.mapping);
    require_holders(&store, &object, 0);
    assert!(matches!(
        store.reclaim(&object).unwrap(),
        Reclaimed::Freed { .. }
    ));
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn derived_objects_are_made_once_and_again_after_they_were_reclaimed() {
    let (_dir, store) = new_store();
    let key = DerivedKey::new(TensorId::of(b"source"), "double", 1).unwrap();
    let wait = Duration::from_secs(5);
    let mut calls = 0;
    let mut get = |store: &Store| {
        let make = || {
            calls += 1;
            Ok::<_, Infallible>(b"doubled".to_vec())
        };
        store
            .get_or_create(&key, Access::ReadOnly, wait, make)
            .unwrap()
    };
    let first = get(&store);
    let second = get(&store);
    assert_eq!(first.object, second.object);
    drop((second, first.mapping));
    store.reclaim(&first.object).unwrap();
    let third = get(&store);
    assert_eq!(third.outcome, PublishOutcome::New);
    assert_eq!(calls, 2);
    let other = DerivedKey::new(TensorId::of(b"source"), "double", 2).unwrap();
    assert!(store.derived(&other, Access::ReadOnly).unwrap().is_none());
}

#[test]
fn damage_is_found_and_quarantined_and_the_next_publish_mends_it() {
    let (_dir, store) = new_store();
    let object = store.publish(&[7; 9000], Access::ReadOnly).unwrap().object;
    let path = store.object_path(&object);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8999] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for depth in [VerifyDepth::Crc, VerifyDepth::Full] {
        let verdict = store.verify(&object, depth).unwrap();
        assert!(matches!(
            verdict,
            Verified::Damaged(Fault::Crc { .. } | Fault::Id { .. })
        ));
    }
    let mapped = store.map(&object, Access::ReadOnly).unwrap().unwrap();
    assert!(store.quarantine(&object).unwrap());
    assert!(store.map(&object, Access::ReadOnly).unwrap().is_none());
    let set_aside = store.quarantined().unwrap().objects;
    assert_eq!(set_aside.len(), 1);
    assert_eq!(Holders::processes(&set_aside[0]), [std::process::id()]);
    drop(mapped);
    assert_eq!(Holders::processes(&set_aside[0]), []);
    assert!(store.remove_quarantined(&object).unwrap());
    assert!(!store.remove_quarantined(&object).unwrap());
    assert_eq!(store.quarantined().unwrap().objects, []);
    let again = store.publish(&[7; 9000], Access::ReadOnly).unwrap();
    assert_eq!(again.outcome, PublishOutcome::New);
    assert_eq!(
        store.verify(&object, VerifyDepth::Full).unwrap(),
        Verified::Sound
    );
}

#[test]
fn a_truncated_object_is_never_mapped_and_publishing_replaces_it() {
    let (_dir, store) = new_store();
    let object = ObjectRef::of(&[5; 9000]);
    let path = store.object_path(&object);
    std::fs::write(&path, [5; 100]).unwrap();
    let error = store.map(&object, Access::ReadOnly).unwrap_err();
    assert!(matches!(error, MapError::Damaged { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("9000 bytes, found a file of 100 bytes"),
        "{error}"
    );
    let published = store.publish(&[5; 9000], Access::ReadOnly).unwrap();
    assert_eq!(published.outcome, PublishOutcome::New);
    assert_eq!(&published.mapping[..], &[5; 9000]);
}

#[test]
fn links_pipes_and_directories_with_an_objects_name_are_refused_without_blocking() {
    let (dir, store) = new_store();
    let object = ObjectRef::of(b"secret");
    let path = store.object_path(&object);
    let outside = dir.path().join("outside");
    std::fs::write(&outside, b"secret").unwrap();

    symlink(&outside, &path).unwrap();
    assert!(matches!(
        store.map(&object, Access::ReadOnly),
        Err(MapError::Damaged { .. })
    ));
    assert_eq!(store.objects().unwrap().foreign.len(), 1);
    std::fs::remove_file(&path).unwrap();

    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    assert!(matches!(
        store.map(&object, Access::ReadOnly),
        Err(MapError::Damaged { .. })
    ));
    std::fs::remove_file(&path).unwrap();

    std::fs::create_dir(&path).unwrap();
    assert!(matches!(
        store.map(&object, Access::ReadOnly),
        Err(MapError::Damaged { .. })
    ));
    let foreign = store.objects().unwrap().foreign;
    assert_eq!(foreign[0].reason, "it is not a regular file");
}

#[test]
fn a_link_in_the_place_of_a_folder_is_not_followed() {
    let (dir, store) = new_store();
    let (root, objects) = (store.root().to_owned(), store.objects_dir());
    drop(store);
    let elsewhere = dir.path().join("elsewhere");
    std::fs::rename(&objects, &elsewhere).unwrap();
    symlink(&elsewhere, &objects).unwrap();
    let refused = Store::open(&root).unwrap_err();
    assert!(
        refused.to_string().contains("objects-v1"),
        "the link is named: {refused}"
    );
    // Who looks at the header alone opens no folder.
    Store::id_in(&root).unwrap();
    std::fs::rename(root.join("store"), dir.path().join("header")).unwrap();
    symlink(dir.path().join("header"), root.join("store")).unwrap();
    let refused = Store::id_in(&root).unwrap_err();
    assert!(matches!(refused, StoreError::Io(_)), "{refused}");
}

#[test]
fn opening_what_is_no_store_says_what_it_is() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let open = |path: &std::path::Path| Store::open(path).unwrap_err();
    assert!(matches!(open(dir.path()), StoreError::NotAStore { .. }));
    assert!(matches!(
        open(&dir.path().join("missing")),
        StoreError::Io(_)
    ));

    std::fs::write(dir.path().join("something"), b"").unwrap();
    let error = Store::create(dir.path(), &CreateOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    std::fs::remove_file(dir.path().join("something")).unwrap();

    Store::create(dir.path(), &CreateOptions::default()).unwrap();
    let header = dir.path().join("store");
    let mut bytes = std::fs::read(&header).unwrap();
    std::fs::remove_file(&header).unwrap();
    bytes[8] = 9;
    std::fs::write(&header, &bytes).unwrap();
    assert!(matches!(
        open(dir.path()),
        StoreError::Version { found: 9, .. }
    ));
    bytes[8] = 1;
    bytes[20] ^= 1;
    std::fs::write(&header, &bytes).unwrap();
    assert!(matches!(open(dir.path()), StoreError::Header { .. }));
}

#[test]
fn a_directory_outside_tmpfs_is_refused_unless_allowed() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    match Store::create(dir.path(), &CreateOptions::default()) {
        Err(StoreError::NotTmpfs { .. }) => {}
        other => panic!("expected NotTmpfs, found {other:?}"),
    }
    let options = CreateOptions::default().with_allow_other_file_systems(true);
    let store = Store::create(dir.path(), &options).unwrap();
    let published = store.publish(b"on disk", Access::ReadOnly).unwrap();
    assert_eq!(&published.mapping[..], b"on disk");
}

#[test]
fn dedicated_stores_share_nothing() {
    let (_a, one) = new_store();
    let (_b, two) = new_store();
    assert_ne!(one.id(), two.id());
    let object = one.publish(b"tenant one", Access::ReadOnly).unwrap().object;
    assert!(two.map(&object, Access::ReadOnly).unwrap().is_none());
}

#[test]
fn creating_a_store_twice_opens_it() {
    let (dir, store) = new_store();
    let again = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    assert_eq!(store.id(), again.id());
}
