//! A process holds leases on files of a store, which it can only read, so that every plain open of them waits for
//! it. Nothing here does: each test ends while the kernel still has the lease.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use tetris_agent::{Agent, LoadOptions, PrivateCause};
use tetris_node::config::ConfigFile;
use tetris_node::engine::commands::now_ms;
use tetris_node::engine::{PassResult, Reclaimer};
use tetris_node::report::{ErrorClass, Trigger};
use tetris_node::store::StoreConfig;
use tetris_store_layout::{
    Access, DerivedKey, ManifestId, ObjectRef, RECLAIMER_STATE, Reclaimed, Store, TensorId,
    Verified, VerifyDepth,
};
use tetris_tests::model::{equal_specs, fingerprint, fingerprint_of_file, write};
use tetris_tests::scratch::Scratch;

use tetris_test_support::lease::Lease;

/// A store with one model of some objects, which no one maps.
struct Site {
    scratch: Scratch,
    model: PathBuf,
    expected: String,
}

impl Site {
    fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let model = scratch.model("model");
        write(&model, &equal_specs(1, 3, 200_000)).unwrap();
        let expected = fingerprint_of_file(&model).unwrap();
        let site = Self {
            scratch,
            model,
            expected,
        };
        assert_eq!(site.load().0, 0, "all of it is shared");
        site
    }

    fn store(&self) -> &Store {
        self.scratch.store()
    }

    /// Loads the model and checks its bytes. Returns the private bytes, and their cause.
    fn load(&self) -> (u64, Option<PrivateCause>) {
        // All of it is small here.
        let options = LoadOptions::default().with_min_shared_bytes(0);
        let agent = Agent::open_store(self.scratch.root()).unwrap();
        let model = agent.load_with(&self.model, &options).unwrap();
        assert_eq!(fingerprint(&model).unwrap(), self.expected);
        let report = model.report();
        (report.bytes_private, report.private_cause)
    }

    fn object(&self) -> ObjectRef {
        self.store().objects().unwrap().objects[0].object
    }

    fn manifest(&self) -> ManifestId {
        self.store().manifests().unwrap()[0].id
    }

    fn file(&self, folder: &str, name: &impl ToString) -> PathBuf {
        self.scratch.root().join(folder).join(name.to_string())
    }

    fn reclaimer(&self) -> Reclaimer {
        let store = StoreConfig {
            name: "store".to_owned(),
            path: self.scratch.root().to_owned(),
            namespaces: Vec::new(),
            own: false,
        };
        let file = ConfigFile {
            stores: vec![store],
            ..ConfigFile::default()
        };
        Reclaimer::new(file.check().unwrap(), false, now_ms())
    }
}

/// A pass that lists all, and collects records.
fn pass(reclaimer: &mut Reclaimer) -> PassResult {
    reclaimer.pass(Trigger::Interval, &[], now_ms())
}

fn errors(pass: &PassResult) -> Vec<ErrorClass> {
    pass.report.errors.iter().map(|(class, _)| *class).collect()
}

#[test]
fn a_leased_object_is_held_for_a_pass_and_private_for_a_load() {
    let site = Site::new();
    let object = site.object();
    let path = site.store().object_path(&object);
    for take in [Lease::write, Lease::read] {
        let lease = take(&path);
        assert_eq!(
            site.store().reclaim(&object).unwrap(),
            Reclaimed::Referenced
        );
        assert!(lease.is_held());
    }
    let lease = Lease::write(&path);
    let refused = site.store().map(&object, Access::ReadOnly).unwrap_err();
    assert!(refused.is_leased(), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("grep LEASE /proc/locks"), "{text}");
    let verified = site.store().verify(&object, VerifyDepth::Full).unwrap();
    assert_eq!(verified, Verified::Leased);
    assert!(site.store().quarantine(&object).unwrap_err().is_leased());
    let (private, cause) = site.load();
    assert_eq!(private, object.len, "that object alone");
    assert_eq!(cause, Some(PrivateCause::Leased));
    let passed = pass(&mut site.reclaimer());
    assert_eq!(errors(&passed), []);
    assert!(lease.is_held());
    drop(lease);
    assert_eq!(site.load(), (0, None));
    let freed = site.store().reclaim(&object).unwrap();
    assert_eq!(freed, Reclaimed::Freed { bytes: object.len });
}

#[test]
fn a_leased_record_stays_and_keeps_no_other_from_being_collected() {
    let site = Site::new();
    let manifest = site.manifest();
    let identity = site.store().identity_records().unwrap()[0].id;
    let leases = [
        Lease::write(&site.file("manifests-v1", &manifest)),
        Lease::write(&site.file("identities-v1", &identity)),
    ];
    // One that nothing needs any more.
    let key = DerivedKey::new(TensorId::of(b"source"), "of nothing", 1).unwrap();
    let make = || Ok::<_, Infallible>(vec![7; 5000]);
    let derived = site
        .store()
        .get_or_create(&key, Access::ReadOnly, Duration::ZERO, make);
    let gone = derived.unwrap().object;
    site.store().reclaim(&gone).unwrap();
    assert!(site.store().manifest(manifest).unwrap_err().is_leased());
    assert_eq!(site.store().identities().unwrap().len(), 0);
    let passed = pass(&mut site.reclaimer());
    // The manifest cannot be read, which is said once and stops nothing.
    assert_eq!(errors(&passed), [ErrorClass::Record]);
    assert_eq!(passed.status.stores[0].error, None);
    assert_eq!(site.store().derived_records().unwrap().len(), 0);
    assert_eq!(site.store().manifests().unwrap().len(), 1);
    // Not recognized: hashed, and found in the store.
    assert_eq!(site.load().0, 0);
    assert!(leases.iter().all(Lease::is_held));
}

#[test]
fn a_leased_header_is_an_error_at_once_and_a_store_that_is_open_has_none() {
    let site = Site::new();
    let header = site.scratch.root().join("store");
    // The site's store has it open.
    let refused = Lease::attempt(&header, "F_WRLCK", tetris_test_support::lease::Rights::Node);
    assert_eq!(refused.unwrap_err(), nix::libc::EAGAIN);
    let _lease = Lease::read(&header);
    assert_eq!(errors(&pass(&mut site.reclaimer())), []);

    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = tetris_store_layout::CreateOptions::default();
    drop(Store::create(dir.path(), &options).unwrap());
    let lease = Lease::write(&dir.path().join("store"));
    let refused = Store::open(dir.path()).unwrap_err();
    assert!(refused.is_leased(), "{refused}");
    assert!(Store::create(dir.path(), &options).unwrap_err().is_leased());
    let agent = Agent::open_store(dir.path()).map(drop);
    assert!(agent.is_err() && lease.is_held());
    drop(lease);
    Store::open(dir.path()).unwrap();
}

#[test]
fn a_pass_begins_without_a_store_whose_header_is_leased_and_takes_it_up_later() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = tetris_store_layout::CreateOptions::default();
    drop(Store::create(dir.path(), &options).unwrap());
    let lease = Lease::write(&dir.path().join("store"));
    let store = StoreConfig {
        name: "store".to_owned(),
        path: dir.path().to_owned(),
        namespaces: Vec::new(),
        own: false,
    };
    let file = ConfigFile {
        stores: vec![store],
        ..ConfigFile::default()
    };
    let mut reclaimer = Reclaimer::new(file.check().unwrap(), false, now_ms());
    let passed = pass(&mut reclaimer);
    let error = passed.status.stores[0].error.clone().unwrap();
    assert!(error.contains("holds a lease"), "{error}");
    assert!(lease.is_held());
    drop(lease);
    assert_eq!(pass(&mut reclaimer).status.stores[0].error, None);
    // From now on it is open.
    let header = dir.path().join("store");
    let refused = Lease::attempt(&header, "F_WRLCK", tetris_test_support::lease::Rights::Node);
    assert_eq!(refused.unwrap_err(), nix::libc::EAGAIN);
}

#[test]
fn leases_on_the_daemons_own_files_cost_experience_and_time_for_nobody() {
    let site = Site::new();
    let mut first = site.reclaimer();
    pass(&mut first);
    first.keep(now_ms());
    drop(first);
    let leases = [
        Lease::write(&site.scratch.root().join(RECLAIMER_STATE)),
        Lease::write(&site.scratch.root().join("locks")),
    ];
    let mut second = site.reclaimer();
    assert_eq!(errors(&pass(&mut second)), [ErrorClass::State]);
    assert_eq!(site.load().0, 0);
    assert!(leases.iter().all(Lease::is_held));
    // Replaced, not written to.
    second.keep(now_ms());
    assert_eq!(errors(&pass(&mut second)), []);
}
