//! Content of a store that ends the daemon whenever it is read.

use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_store_layout::{CreateOptions, Store};

use super::harness::{Daemon, Place, eventually};
use crate::node::fixture::{Fixture, pass};
use tetris_test_support::skipped::skipped;

/// While this lives, every process that opens the file waits for an answer that does not come.
fn stuck(path: &Path) -> Option<Fanotify> {
    let flags = InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC;
    let made = Fanotify::init(flags, EventFFlags::O_RDONLY).and_then(|asks| {
        let mask = MaskFlags::FAN_OPEN_PERM;
        asks.mark(MarkFlags::FAN_MARK_ADD, mask, AT_FDCWD, Some(path))?;
        Ok(asks)
    });
    match made {
        Ok(asks) => Some(asks),
        Err(error) => {
            skipped(&format!("needs fanotify: {error}"));
            None
        }
    }
}

/// The number of deaths, as the store's mark has it.
fn mark(store: &Path) -> String {
    std::fs::read_to_string(store.join("reclaimer-reading")).unwrap_or_default()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn a_store_that_ends_two_starts_is_without_its_records_at_the_third_which_serves() {
    let place = Place::new();
    let store = place.store();
    let other = Store::create(place.path("other"), &CreateOptions::default()).unwrap();
    let model = place.load(100_000, 1);
    let root = place.path("store");
    let manifest = files(&root.join("manifests-v1")).remove(0);
    let Some(_stuck) = stuck(&manifest) else {
        return;
    };
    let config = place.config(&format!(
        "listen = \"127.0.0.1:0\"\n[[stores]]\nname = \"b\"\npath = \"{}\"\n",
        place.path("other").display()
    ));
    for deaths in ["1", "2"] {
        let daemon = Daemon::start(&config, &[]);
        eventually("the daemon reads the store", || {
            (mark(&root) == deaths).then_some(())
        });
        daemon.kill();
        assert_eq!(mark(&root), deaths);
    }

    let daemon = Daemon::start(&config, &[]);
    daemon.says("its records are quarantined");
    eventually("a pass", || {
        (daemon.get("/status").contains("\"observed_ms\"")).then_some(())
    });
    let quarantined = |store: &str| {
        daemon.metric(&format!(
            "tetris_store_records_quarantined{{store=\"{store}\"}}"
        ))
    };
    // The manifest and its identity.
    assert_eq!((quarantined("a"), quarantined("b")), (2.0, 0.0));
    assert!(daemon.get("/status").contains("\"quarantined\":2"));
    assert_eq!((mark(&root), mark(other.root())), ("0".into(), "0".into()));
    assert_eq!(store.record_use().unwrap().files, 0);
    for socket in [store.daemon_socket(), other.daemon_socket()] {
        eventually("both stores are served", || {
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
    }
    // What is mapped stays, and the next load of the file finds its object.
    assert_eq!(model.tensor("w").unwrap().bytes()[5], 5 ^ 1);
    drop(place.load(100_000, 1));
    assert_eq!(store.manifests().unwrap().len(), 1);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    assert!(daemon.stop().success());
    assert_eq!(files(&root.join("suspect-v1")).len(), 2);
}

/// Makes a store whose last starts ended so often.
fn fixture(deaths: &str) -> Fixture {
    let fixture = Fixture::new();
    for store in ["a", "b"] {
        fixture.store(store);
    }
    drop(fixture.load("a", "bert", 1));
    std::fs::write(fixture.path("a/reclaimer-reading"), deaths).unwrap();
    fixture
}

#[test]
fn a_store_that_ends_starts_without_its_records_too_is_not_read_until_someone_asks_for_it() {
    let fixture = fixture("4");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a", "b"], |_| ()), false, now_ms());
    let status = pass(&mut reclaimer, now_ms()).status;
    let errors: Vec<_> = status.stores.iter().map(|store| &store.error).collect();
    let [None, Some(error)] = errors[..] else {
        panic!("{errors:?}");
    };
    assert!(error.contains("the last 4 starts"), "{error}");
    assert_eq!(mark(&fixture.path("a")), "4");
    assert!(!fixture.path("a/suspect-v1").exists());

    std::fs::remove_file(fixture.path("a/reclaimer-reading")).unwrap();
    let status = pass(&mut reclaimer, now_ms()).status;
    assert!(status.stores.iter().all(|store| store.error.is_none()));
    assert_eq!(status.stores[0].models.len(), 1);
    assert_eq!(mark(&fixture.path("a")), "0");
}

#[test]
fn records_that_are_set_aside_count_in_their_store() {
    let fixture = fixture("2");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a", "b"], |_| ()), false, now_ms());
    let status = pass(&mut reclaimer, now_ms()).status;
    let [a, b] = &status.stores[..] else {
        panic!("{:?}", status.stores);
    };
    assert_eq!((a.records.files, a.records.quarantined), (0, 2));
    assert_eq!(b.records.quarantined, 0);
    assert!(a.inodes >= b.inodes + 3, "an object and two records");
    assert!(a.models.is_empty());
}

#[test]
fn learned_state_outside_of_the_store_is_set_aside_as_well() {
    let fixture = fixture("2");
    let learned = fixture.path("a.json");
    std::fs::write(&learned, "hostile").unwrap();
    let state_dir = fixture.path("");
    let config = fixture.config(&["a"], |file| file.state_dir = Some(state_dir));
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    pass(&mut reclaimer, now_ms());
    assert!(!learned.exists());
    let kept = std::fs::read_to_string(fixture.path("a.json.suspect")).unwrap();
    assert_eq!(kept, "hostile");
}

#[test]
fn a_dry_run_counts_no_death_and_sets_nothing_aside() {
    let fixture = fixture("2");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| ()), true, now_ms());
    let status = pass(&mut reclaimer, now_ms()).status;
    assert_eq!(status.stores[0].models.len(), 1);
    assert_eq!(mark(&fixture.path("a")), "2");
    assert!(!fixture.path("a/suspect-v1").exists());
}
