//! A full store frees what no one references, least recently used first; what it cannot take then is
//! private, with the reason.

use std::path::PathBuf;

use tetris_agent::{Agent, LoadOptions, Model};
use tetris_store_layout::Access;
use tetris_tests::check::{require_reclaimable, require_tidy};
use tetris_tests::model::{bytes, equal_specs, fingerprint, fingerprint_of_file, write};
use tetris_tests::scratch::Scratch;
use tetris_tests::skip;
use tetris_tests::skip::is_root;

const TENSOR_LEN: usize = 1 << 20;

/// A model of `mib` MiB.
fn model(scratch: &Scratch, name: &str, seed: u64, mib: u64) -> PathBuf {
    let path = scratch.model(name);
    write(&path, &equal_specs(seed, mib, TENSOR_LEN)).unwrap();
    path
}

fn load(agent: &Agent, path: &PathBuf) -> Model {
    let model = agent.load(path).unwrap();
    assert_eq!(
        fingerprint(&model).unwrap(),
        fingerprint_of_file(path).unwrap()
    );
    model
}

fn is_present(scratch: &Scratch, model: &[tetris_store_layout::ObjectRef]) -> bool {
    model.iter().all(|object| scratch.store().contains(object))
}

#[test]
fn a_store_full_of_unreferenced_objects_makes_room_least_recently_used_first() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let scratch = Scratch::mounted("size=36m").unwrap();
    let agent = scratch.agent().unwrap();
    let paths = [1, 2, 3].map(|seed| model(&scratch, &format!("m{seed}"), seed, 10));
    let objects = paths
        .each_ref()
        .map(|path| load(&agent, path).objects().collect::<Vec<_>>());
    // Used again: the second is now the oldest.
    drop(load(&agent, &paths[0]));
    let path = model(&scratch, "new", 9, 10);
    let new = load(&agent, &path);
    assert_eq!(new.report().bytes_private, 0, "{:?}", new.report());
    assert!(is_present(&scratch, &objects[0]), "used last");
    assert!(is_present(&scratch, &objects[2]), "used later");
    assert!(!is_present(&scratch, &objects[1]), "used least recently");
    require_tidy(scratch.store(), scratch.empty_usage()).unwrap();
}

#[test]
fn a_store_full_of_referenced_objects_leaves_the_rest_private_and_says_why() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let scratch = Scratch::mounted("size=16m").unwrap();
    let agent = scratch.agent().unwrap();
    let kept = load(&agent, &model(&scratch, "kept", 1, 10));
    let path = model(&scratch, "new", 2, 10);
    let new = load(&agent, &path);
    let report = new.report();
    assert!(report.bytes_private >= 4 << 20, "{report:?}");
    assert!(report.bytes_new > 0, "what fits is shared: {report:?}");
    let reason = report.private_reason.as_deref().unwrap();
    assert!(reason.contains("No space left"), "{reason}");
    assert_eq!(kept.report().bytes_private, 0);
    let file = agent.share_file(&path, &LoadOptions::default()).unwrap();
    assert!(!file.is_shared());
    assert!(
        file.report().private_reason.is_some(),
        "{:?}",
        file.report()
    );
    drop((kept, new));
    require_tidy(scratch.store(), scratch.empty_usage()).unwrap();
    // Now there is room for all of it.
    let again = load(&agent, &path);
    assert_eq!(again.report().bytes_private, 0, "{:?}", again.report());
    drop((again, file));
    require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
}

#[test]
fn a_known_whole_file_that_does_not_fit_any_more_stays_where_it_is_and_says_why() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let scratch = Scratch::mounted("size=16m").unwrap();
    let agent = scratch.agent().unwrap();
    let path = model(&scratch, "file", 1, 10);
    let options = LoadOptions::default();
    let first = agent.share_file(&path, &options).unwrap();
    assert!(first.is_shared());
    let objects = scratch.store().objects().unwrap().objects;
    drop(first);
    scratch.store().reclaim(&objects[0].object).unwrap();
    let _kept = scratch
        .store()
        .publish(&bytes(7, 12 << 20), Access::ReadOnly)
        .unwrap();
    let again = agent.share_file(&path, &options).unwrap();
    assert_eq!((again.is_shared(), again.path()), (false, path.as_path()));
    assert!(
        again.report().private_reason.is_some(),
        "{:?}",
        again.report()
    );
}

#[test]
fn a_store_without_inodes_makes_room_as_well() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let scratch = Scratch::mounted("size=64m,nr_inodes=40").unwrap();
    let agent = scratch.agent().unwrap();
    let left = scratch.store().usage().unwrap().inodes_free;
    for index in 0..left {
        scratch
            .store()
            .publish(&bytes(index, 5_000), Access::ReadOnly)
            .unwrap();
    }
    assert_eq!(scratch.store().usage().unwrap().inodes_free, 0);
    let path = model(&scratch, "new", 9, 4);
    let new = load(&agent, &path);
    assert_eq!(new.report().bytes_private, 0, "{:?}", new.report());
}

#[test]
fn a_store_without_inodes_for_referenced_objects_leaves_the_rest_private() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let scratch = Scratch::mounted("size=64m,nr_inodes=20").unwrap();
    let agent = scratch.agent().unwrap();
    let path = model(&scratch, "new", 9, 20);
    let new = load(&agent, &path);
    assert!(new.report().bytes_private > 0, "{:?}", new.report());
    assert!(new.report().private_reason.is_some());
    drop(new);
    require_tidy(scratch.store(), scratch.empty_usage()).unwrap();
    require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
}
