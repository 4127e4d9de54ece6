//! A store that is missing, damaged, of another version, read-only, not permitted or taken away: the
//! model loads correctly all the same.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadOptions, Model};
use tetris_tests::model::{fingerprint, fingerprint_of_file, settle, small_specs, write};
use tetris_tests::mount::Mount;
use tetris_tests::process::Worker;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip::is_root;
use tetris_tests::task::{Job, LoadTask, Loaded, Task};
use tetris_tests::{skip, worker_exe};

const NOBODY: u32 = 65_534;

fn model(scratch: &Scratch, name: &str, seed: u64) -> PathBuf {
    let path = scratch.model(name);
    write(&path, &small_specs(seed, &[0, 1, 2, 3, 4, 5])).unwrap();
    path
}

fn assert_right(model: &Model, path: &Path) {
    assert_eq!(
        fingerprint(model).unwrap(),
        fingerprint_of_file(path).unwrap()
    );
}

fn assert_private(agent: &Agent, path: &Path) {
    let model = agent.load(path).unwrap();
    assert_right(&model, path);
    let report = model.report();
    assert_eq!(report.bytes_private, report.bytes_total(), "{report:?}");
    assert!(report.private_reason.is_some(), "{report:?}");
    let file = agent.share_file(path, &LoadOptions::default()).unwrap();
    assert_eq!((file.is_shared(), file.path()), (false, path));
}

fn assert_shared(agent: &Agent, path: &Path) {
    let model = agent.load(path).unwrap();
    assert_right(&model, path);
    let report = model.report();
    assert_eq!(report.bytes_shared, report.bytes_total(), "{report:?}");
    assert_eq!(report.bytes_read, 0, "{report:?}");
}

#[test]
fn a_missing_store_does_not_keep_a_model_from_loading() {
    let scratch = Scratch::new().unwrap();
    let path = model(&scratch, "model", 1);
    let places = [
        scratch.models().join("missing"),
        scratch.models().to_owned(),
        path.clone(),
        PathBuf::from("/dev/null"),
    ];
    for place in places {
        assert_private(&Agent::at(&StoreLocation::named(place)), &path);
    }
}

#[test]
fn a_store_of_another_version_or_with_a_damaged_header_is_left_alone() {
    let scratch = Scratch::new().unwrap();
    let path = model(&scratch, "model", 1);
    drop(scratch.agent().unwrap().load(&path).unwrap());
    let header = scratch.root().join("store");
    let good = std::fs::read(&header).unwrap();
    std::fs::set_permissions(&header, PermissionsExt::from_mode(0o644)).unwrap();
    let files = || tetris_tests::check::files(scratch.store()).unwrap();
    let before = files();
    let mut later = good.clone();
    later[8] = 2;
    let mut damaged = good.clone();
    damaged[20] ^= 1;
    for bytes in [later, damaged, good[..40].to_vec(), Vec::new()] {
        std::fs::write(&header, &bytes).unwrap();
        assert_private(&Agent::at(&StoreLocation::named(scratch.root())), &path);
        assert_eq!(files(), before);
    }
    std::fs::write(&header, &good).unwrap();
    assert_shared(&Agent::at(&StoreLocation::named(scratch.root())), &path);
}

#[test]
fn a_store_whose_folders_are_missing_does_not_keep_a_model_from_loading() {
    for folder in ["objects-v1", "manifests-v1", "identities-v1", "locks"] {
        let scratch = Scratch::new().unwrap();
        let path = model(&scratch, "model", 1);
        let connected = scratch.agent().unwrap();
        std::fs::rename(scratch.root().join(folder), scratch.root().join("gone")).unwrap();
        for agent in [connected, Agent::at(&StoreLocation::named(scratch.root()))] {
            assert_right(&agent.load(&path).unwrap(), &path);
        }
    }
}

#[test]
fn a_store_that_is_taken_away_does_not_keep_a_model_from_loading() {
    let scratch = Scratch::new().unwrap();
    let (known, unknown) = (model(&scratch, "known", 1), model(&scratch, "unknown", 2));
    let agent = scratch.agent().unwrap();
    let mapped = agent.load(&known).unwrap();
    for entry in std::fs::read_dir(scratch.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert_private(&agent, &unknown);
    assert_right(&mapped, &known);
}

#[test]
fn a_read_only_store_shares_what_it_has() {
    if !is_root() {
        skip!("needs root to mount the store read-only");
    }
    let scratch = Scratch::new().unwrap();
    let (known, unknown) = (model(&scratch, "known", 1), model(&scratch, "unknown", 2));
    let _kept = scratch.agent().unwrap().load(&known).unwrap();
    let mount = Mount::read_only(scratch.root()).unwrap();
    let agent = Agent::at(&StoreLocation::named(mount.path()));
    assert!(!agent.store().unwrap().is_writable());
    assert_shared(&agent, &known);
    assert_private(&agent, &unknown);
    // A copy of the known file: read, hashed and shared.
    let copy = scratch.model("copy");
    std::fs::copy(&known, &copy).unwrap();
    settle(&copy).unwrap();
    let model = agent.load(&copy).unwrap();
    assert_right(&model, &copy);
    assert_eq!(model.report().bytes_shared, model.report().bytes_total());
}

#[test]
fn a_store_that_becomes_read_only_shares_what_it_has() {
    if !is_root() {
        skip!("needs root to mount a tmpfs");
    }
    let scratch = Scratch::new().unwrap();
    let (known, unknown) = (model(&scratch, "known", 1), model(&scratch, "unknown", 2));
    let agent = scratch.agent().unwrap();
    drop(agent.load(&known).unwrap());
    scratch.mount().unwrap().set_read_only(true).unwrap();
    assert_shared(&agent, &known);
    assert_private(&agent, &unknown);
}

fn load_as_nobody(scratch: &Scratch, path: &Path) -> Loaded {
    let task = Task::Load(LoadTask::of(scratch.root(), path));
    let mut worker = Worker::start(worker_exe!(), &Job::of_user(NOBODY, task));
    worker.wait_ready();
    worker.go();
    let loaded: Loaded = worker.finish().result();
    assert_eq!(loaded.error, None);
    assert_eq!(loaded.fingerprint, fingerprint_of_file(path).unwrap());
    loaded
}

#[test]
fn another_user_shares_what_the_store_has() {
    if !is_root() {
        skip!("needs root to become another user");
    }
    let scratch = Scratch::new().unwrap();
    std::fs::set_permissions(scratch.models(), PermissionsExt::from_mode(0o755)).unwrap();
    let (known, unknown) = (model(&scratch, "known", 1), model(&scratch, "unknown", 2));
    drop(scratch.agent().unwrap().load(&known).unwrap());
    let loaded = load_as_nobody(&scratch, &known);
    assert_eq!(
        (loaded.bytes_private, loaded.bytes_read),
        (0, 0),
        "{loaded:?}"
    );
    let loaded = load_as_nobody(&scratch, &unknown);
    assert_eq!(
        (loaded.bytes_shared, loaded.bytes_new),
        (0, 0),
        "{loaded:?}"
    );
    assert!(loaded.private_reason.is_some(), "{loaded:?}");
}

#[test]
fn a_store_that_may_not_be_read_does_not_keep_a_model_from_loading() {
    if !is_root() {
        skip!("needs root to become another user");
    }
    for hidden in ["", "store", "objects-v1", "manifests-v1", "identities-v1"] {
        let scratch = Scratch::new().unwrap();
        std::fs::set_permissions(scratch.models(), PermissionsExt::from_mode(0o755)).unwrap();
        let known = model(&scratch, "known", 1);
        drop(scratch.agent().unwrap().load(&known).unwrap());
        let path = scratch.root().join(hidden);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
        let loaded = load_as_nobody(&scratch, &known);
        assert!(loaded.bytes_private > 0, "{hidden}: {loaded:?}");
        assert!(loaded.private_reason.is_some(), "{hidden}: {loaded:?}");
    }
}
