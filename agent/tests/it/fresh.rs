//! Files that were written a moment ago, and small ones: loaded at once, and never taken for another later.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{
    Agent, DEFAULT_MIN_SHARED_BYTES, LoadOptions, LoadReport, ManifestKind, Model, Recognized,
    Words,
};

use tetris_test_support::models::{Fixture, assert_same, bytes, settle, write_f32};

/// Larger than a new file must be to be shared.
const LARGE: usize = 5_000_000;
/// Larger than an old file must be to be shared, and smaller than a new one must be.
const MIDDLE: usize = 1 << 20;
/// Too small to be shared.
const SMALL: usize = 4_000;

/// Writes a model of one tensor in the place of any other, and does not wait until it is old.
fn write_new(path: &Path, seed: u64, len: usize) {
    write_f32(path, &[("w".to_owned(), bytes(seed, len))]);
}

/// The result of `act` on a file that was new all the while, having been written just before.
fn while_new<T>(fixture: &Fixture, len: usize, mut act: impl FnMut(&Path) -> T) -> (PathBuf, T) {
    for attempt in 0..100 {
        let path = fixture.dir().join(format!("new-{attempt}.safetensors"));
        let begun = SystemTime::now();
        write_new(&path, attempt, len);
        let result = act(&path);
        if begun
            .elapsed()
            .is_ok_and(|age| age < Duration::from_millis(90))
        {
            return (path, result);
        }
        // The machine was busy. What was done is undone.
        drop(result);
        collect(fixture.store(), &GcOptions::default()).unwrap();
    }
    panic!("no file was loaded within 90 ms");
}

fn settled(fixture: &Fixture, name: &str, seed: u64, len: usize) -> PathBuf {
    let path = fixture.dir().join(name);
    write_new(&path, seed, len);
    settle(&path);
    path
}

fn sharing_all() -> LoadOptions {
    LoadOptions::default().with_min_shared_bytes(0)
}

fn is_private_by_choice(model: &Model, len: usize, why: &str) {
    let report = model.report();
    assert_eq!(report.recognized, [Recognized::Unshared], "{report:?}");
    assert_eq!(
        (report.bytes_private, report.bytes_unshared),
        (0, len as u64)
    );
    assert_eq!(report.bytes_total(), len as u64);
    let reason = report.private_reason.as_deref().unwrap();
    assert!(reason.contains(why), "{reason}");
    let cause = report.private_cause.unwrap();
    assert!(cause.is_choice(), "{cause:?}");
    let remedy = report.remedy(Words::Python).unwrap();
    assert!(remedy.contains("TETRIS_MIN_SHARED_BYTES=0"), "{remedy}");
}

#[test]
fn a_large_new_file_is_published_at_once_and_bound_when_it_is_old() {
    let fixture = Fixture::new();
    let (path, first) = while_new(&fixture, LARGE, |path| fixture.agent.load(path).unwrap());
    assert_same(&first, &path);
    assert_eq!(first.report().recognized, [Recognized::ByHashing]);
    assert_eq!(first.report().bytes_new, LARGE as u64);
    assert!(fixture.store().identities().unwrap().is_empty());

    settle(&path);
    let second = fixture.agent.load(&path).unwrap();
    assert_eq!(second.report().recognized, [Recognized::ByHashing]);
    assert_eq!(second.report().bytes_shared, LARGE as u64);
    let third = fixture.agent.load(&path).unwrap();
    assert_eq!(third.report().recognized, [Recognized::ByStat]);
    assert_same(&third, &path);
}

#[test]
fn a_file_that_grows_old_while_it_is_read_is_bound() {
    let fixture = Fixture::new();
    let path = fixture.dir().join("model.safetensors");
    // From a few ms after the write on, at the first progress of the load, the file is old.
    let reader = path.clone();
    let options = LoadOptions::default()
        .with_progress(tetris_agent::ProgressFn::new(move |_| settle(&reader)));
    write_new(&path, 1, LARGE);
    let model = fixture.agent.load_with(&path, &options).unwrap();
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
    let again = fixture.agent.load(&path).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByStat]);
    assert_same(&again, &path);
}

#[test]
fn a_file_that_is_swapped_within_a_tick_is_never_stale() {
    let fixture = Fixture::new();
    for (len, options) in [
        (LARGE, LoadOptions::default()),
        (MIDDLE, LoadOptions::default()),
        (SMALL, LoadOptions::default()),
        (SMALL, sharing_all()),
    ] {
        let path = fixture.dir().join(format!("{len}.safetensors"));
        let versions: Vec<_> = (0..2)
            .map(|seed| {
                let version = fixture.dir().join("version");
                write_new(&version, seed, len);
                std::fs::read(&version).unwrap()
            })
            .collect();
        for round in 0..40 {
            // In place: device, inode and size stay.
            std::fs::write(&path, &versions[round % 2]).unwrap();
            let model = fixture.agent.load_with(&path, &options).unwrap();
            assert_same(&model, &path);
        }
    }
}

#[test]
fn a_new_file_of_a_known_digest_is_bound_by_its_name() {
    use sha2::{Digest, Sha256};
    let fixture = Fixture::new();
    let (path, ()) = while_new(&fixture, LARGE, |path| {
        let digest = Sha256::digest(std::fs::read(path).unwrap());
        let name = digest
            .iter()
            .fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let blobs = fixture.dir().join(&name).join("blobs");
        std::fs::create_dir_all(&blobs).unwrap();
        std::fs::rename(path, blobs.join(&name)).unwrap();
        std::os::unix::fs::symlink(blobs.join(&name), path).unwrap();
        drop(fixture.agent.load(blobs.join(&name)).unwrap());
    });
    let blob = std::fs::canonicalize(path).unwrap();
    let again = fixture.agent.load(&blob).unwrap();
    assert_eq!(again.report().recognized, [Recognized::ByBlobName]);
    assert_same(&again, &blob);
}

#[test]
fn a_small_file_is_read_into_private_memory_and_counted_apart() {
    let fixture = Fixture::new();
    let path = settled(&fixture, "small.safetensors", 1, SMALL);
    for _ in 0..2 {
        let model = fixture.agent.load(&path).unwrap();
        assert_same(&model, &path);
        is_private_by_choice(&model, SMALL, "smaller than 65536 bytes");
    }
    assert!(fixture.store().objects().unwrap().objects.is_empty());
    let counters = fixture.agent.counters();
    assert_eq!((counters.loads, counters.private_loads), (2, 0));
    assert_eq!(counters.private_bytes, 0);
    assert_eq!(counters.unshared_files, 2);
    assert_eq!(counters.unshared_bytes, 2 * SMALL as u64);
}

#[test]
fn a_small_file_is_shared_by_those_who_ask_for_that() {
    let fixture = Fixture::new();
    let path = settled(&fixture, "small.safetensors", 1, SMALL);
    let mut ways = Vec::new();
    for _ in 0..2 {
        let model = fixture.agent.load_with(&path, &sharing_all()).unwrap();
        assert_same(&model, &path);
        assert_eq!(model.report().bytes_unshared, 0);
        ways.extend(model.report().recognized.clone());
    }
    assert_eq!(ways, [Recognized::ByHashing, Recognized::ByStat]);
    // A file is kept whole only for who wants it in the store.
    let whole = fixture.agent.share_file(&path, &LoadOptions::default());
    assert!(whole.unwrap().is_shared());
}

#[test]
fn a_new_file_of_middle_size_is_shared_when_it_is_old() {
    let fixture = Fixture::new();
    let (path, model) = while_new(&fixture, MIDDLE, |path| fixture.agent.load(path).unwrap());
    assert_same(&model, &path);
    is_private_by_choice(&model, MIDDLE, "too new");
    assert!(fixture.store().objects().unwrap().objects.is_empty());
    settle(&path);
    let shared = fixture.agent.load(&path).unwrap();
    assert_eq!(shared.report().bytes_new, MIDDLE as u64);
}

#[test]
fn a_new_file_of_middle_size_is_left_to_callers_that_map_it_otherwise() {
    let fixture = Fixture::new();
    let options = LoadOptions::default();
    let agent = &fixture.agent;
    let (path, (loaded, reason)) = while_new(&fixture, MIDDLE, |path| {
        let loaded = agent.load_unless_new(path, &options).unwrap();
        (loaded, agent.open_file(path).unwrap().leave(&options))
    });
    assert!(loaded.is_none());
    assert!(reason.unwrap().contains("too new"));
    assert!(agent.counters().unshared_files >= 2);
    assert_eq!(agent.counters().private_loads, 0);

    settle(&path);
    assert!(agent.open_file(&path).unwrap().leave(&options).is_none());
    let model = agent.load_unless_new(&path, &options).unwrap().unwrap();
    assert_eq!(model.report().recognized, [Recognized::ByHashing]);
    assert_same(&model, &path);
    // There is nothing to leave to others where nothing is shared.
    let small = settled(&fixture, "small.safetensors", 1, SMALL);
    let alone = Agent::without_store();
    assert!(alone.open_file(&small).unwrap().leave(&options).is_none());
    assert!(alone.load_unless_new(&small, &options).unwrap().is_some());
}

#[test]
fn each_file_of_a_model_is_judged_by_itself() {
    let fixture = Fixture::new();
    let dir = fixture.dir().join("sharded");
    std::fs::create_dir(&dir).unwrap();
    let shards = [("a", LARGE), ("b", SMALL)].map(|(name, len)| {
        let shard = format!("{name}.safetensors");
        write_f32(&dir.join(&shard), &[(name.to_owned(), bytes(1, len))]);
        settle(&dir.join(&shard));
        format!("\"{name}\":\"{shard}\"")
    });
    let index = format!(
        "{{\"metadata\":{{}},\"weight_map\":{{{}}}}}",
        shards.join(",")
    );
    std::fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
    let model = fixture.agent.load(&dir).unwrap();
    let LoadReport {
        recognized,
        bytes_new,
        bytes_unshared,
        ..
    } = model.report();
    assert_eq!(*recognized, [Recognized::ByHashing, Recognized::Unshared]);
    assert_eq!((*bytes_new, *bytes_unshared), (LARGE as u64, SMALL as u64));
    let manifests: Vec<_> = model.manifests().map(|(_, id)| id.is_some()).collect();
    assert_eq!(manifests, [true, false]);
    assert_eq!(model.tensor("b").unwrap().bytes(), bytes(1, SMALL));
}

#[test]
fn what_a_small_file_consists_of_is_told_whatever_its_size() {
    let fixture = Fixture::new();
    let path = settled(&fixture, "small.safetensors", 1, SMALL);
    assert!(std::fs::metadata(&path).unwrap().len() < DEFAULT_MIN_SHARED_BYTES);
    let options = LoadOptions::default();
    let kind = ManifestKind::Safetensors;
    let manifests = fixture.agent.manifests(&path, kind, &options).unwrap();
    assert_eq!(manifests[0].1.tensors.len(), 1);
}
