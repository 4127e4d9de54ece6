//! Foreign and damaged entries of a store: reported, never followed, never deleted.

use std::os::unix::fs::{PermissionsExt, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::{ErrorClass, ObjectState, Trigger};
use tetris_node::room::RoomNeed;
use tetris_store_layout::ObjectRef;

use crate::node::fixture::{Fixture, HOUR_MS, count, expire_after_a_minute, in_two_minutes, pass};
use tetris_test_support::skipped::skipped;

#[test]
fn foreign_things_are_reported_and_left_alone() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let objects = store.objects_dir();
    let precious = fixture.path("precious");
    std::fs::write(&precious, "of someone else").unwrap();
    let name = |bytes: &[u8]| ObjectRef::of(bytes).file_name();
    let record = ObjectRef::of(b"a record").id.to_string();
    // Each in the place of an object or a record.
    std::fs::write(objects.join("notes.txt"), "x").unwrap();
    std::fs::write(objects.join("n".repeat(255)), "x").unwrap();
    std::fs::write(objects.join(name(b"upper").to_uppercase()), "x").unwrap();
    symlink(&precious, objects.join(name(b"a link"))).unwrap();
    mkfifo(&objects.join(name(b"a pipe")), Mode::S_IRUSR).unwrap();
    std::fs::create_dir(objects.join(name(b"a folder"))).unwrap();
    let open_to_all = objects.join(name(b"anybody's"));
    std::fs::write(&open_to_all, "anybody's").unwrap();
    std::fs::set_permissions(&open_to_all, PermissionsExt::from_mode(0o666)).unwrap();
    for folder in [
        "manifests-v1",
        "derived-v1",
        "identities-v1",
        "quarantine-v1",
    ] {
        let folder = fixture.path("a").join(folder);
        std::fs::write(folder.join("notes.txt"), "x").unwrap();
        std::fs::create_dir(folder.join(&record)).unwrap();
    }
    std::fs::write(fixture.path("a/README"), "x").unwrap();
    let all = || {
        let mut all = Vec::new();
        let mut folders = vec![fixture.path("a")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                }
                all.push(entry.path());
            }
        }
        all.sort();
        all
    };
    let before = all();
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    let needs = [RoomNeed {
        store: "a".to_owned(),
        bytes: store.usage().unwrap().capacity,
        inodes: 1,
        ..RoomNeed::default()
    }];
    let passed = reclaimer.pass(Trigger::Request, &needs, now_ms() + 48 * HOUR_MS);
    // The daemon's mark while it read the store.
    std::fs::remove_file(fixture.path("a/reclaimer-reading")).unwrap();
    assert_eq!(all(), before);
    assert_eq!(std::fs::read(&precious).unwrap(), b"of someone else");
    let foreign = &passed.status.stores[0].foreign;
    assert_eq!(foreign.len(), 7 + 4 * 2 + 1, "{foreign:#?}");
    let of = |part: &str| {
        let entry = foreign.iter().find(|entry| entry.path.contains(part));
        entry.map(|entry| entry.reason.clone()).unwrap_or_default()
    };
    assert_eq!(of(&name(b"a link")), "it is not a regular file");
    assert_eq!(of(&name(b"a pipe")), "it is not a regular file");
    assert_eq!(of(&name(b"a folder")), "it is not a regular file");
    let others = "expected mode 0444, found 0666: others can write to it";
    assert_eq!(of(&name(b"anybody's")), others);
    assert_eq!(of("README"), "no part of a store has this name");
    assert!(passed.report.stores[0].freed.is_empty());
}

#[test]
fn what_another_user_owns_is_reported_and_left_alone() {
    if !nix::unistd::geteuid().is_root() {
        skipped("only root can give files to another user");
        return;
    }
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let path = store
        .objects_dir()
        .join(ObjectRef::of(b"theirs").file_name());
    std::fs::write(&path, "theirs").unwrap();
    std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
    let mut reclaimer = Reclaimer::new(
        fixture.config(&["a"], expire_after_a_minute),
        false,
        now_ms(),
    );
    let passed = pass(&mut reclaimer, now_ms() + HOUR_MS);
    assert!(path.exists());
    let reason = &passed.status.stores[0].foreign[0].reason;
    assert_eq!(reason, "expected user 0 or root to own it, found 12345");
}

#[test]
fn damaged_records_are_told_once_and_go() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let id = ObjectRef::of(b"manifest").id.to_string();
    for folder in ["manifests-v1", "derived-v1", "identities-v1"] {
        std::fs::write(fixture.path("a").join(folder).join(&id), "garbage").unwrap();
    }
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    // Everything is looked at in the first pass, which also collects.
    let passed = pass(&mut reclaimer, now_ms());
    let damaged = passed.report.errors.iter();
    let damaged = damaged.filter(|(class, _)| *class == ErrorClass::Record);
    assert_eq!(damaged.count(), 2, "{:?}", passed.report.errors);
    assert_eq!(passed.report.stores[0].records_removed, 3);
    assert!(store.manifests().unwrap().is_empty());
    assert!(pass(&mut reclaimer, now_ms()).report.errors.is_empty());
}

#[test]
fn an_object_that_somebody_else_has_removed_is_no_error() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "one", 1));
    drop(fixture.load("a", "two", 2));
    pass(&mut reclaimer, now_ms());
    let victim = store.objects().unwrap().objects[0].object;
    std::fs::remove_file(store.object_path(&victim)).unwrap();
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(count(&passed.status.stores[0], ObjectState::Idle), 0);
    assert!(store.objects().unwrap().objects.is_empty());
    assert!(passed.report.errors.is_empty());
}
