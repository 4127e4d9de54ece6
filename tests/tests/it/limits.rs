//! A process at its limit of descriptors, mappings or address space loads correctly, if need be into
//! private memory, or gets a clear error. It never gets wrong bytes and never dies.

use std::path::Path;

use tetris_tests::model::{equal_specs, fingerprint_of_file, write};
use tetris_tests::process::Worker;
use tetris_tests::scratch::Scratch;
use tetris_tests::task::{Limit, LoadTask, Loaded};
use tetris_tests::worker_exe;

/// Objects: more than one thread maps, so that attaching has helpers.
const OBJECTS: u64 = 150;

struct Setting {
    scratch: Scratch,
    expected: [String; 2],
}

/// A store that has one of two models.
fn setting() -> Setting {
    let scratch = Scratch::new().unwrap();
    let expected = [("known", 1), ("unknown", 2)].map(|(name, seed)| {
        let path = scratch.model(name);
        write(&path, &equal_specs(seed, OBJECTS, 70_000)).unwrap();
        fingerprint_of_file(&path).unwrap()
    });
    drop(
        scratch
            .agent()
            .unwrap()
            .load(scratch.model("known"))
            .unwrap(),
    );
    Setting { scratch, expected }
}

/// Loads a model in a process with limits. Its answer is right, or a clear error.
fn load(
    store: Option<&Path>,
    model: &Path,
    expected: &str,
    threads: usize,
    limit: Limit,
) -> Loaded {
    let task = LoadTask {
        store: store.map(Path::to_owned),
        model: model.to_owned(),
        threads: Some(threads),
        limits: vec![limit],
        ..LoadTask::default()
    };
    // Printing a backtrace needs descriptors and memory itself.
    let env = [("RUST_BACKTRACE", "0")];
    let mut worker = Worker::spawn(worker_exe!(), &task.into(), env);
    worker.wait_ready();
    worker.go();
    let finished = worker.finish();
    let place = format!("{limit:?}, {threads} threads, {}", model.display());
    assert!(finished.status.success(), "{place}: {finished:?}");
    let loaded: Loaded = finished.result();
    if let Some(error) = &loaded.error {
        let name = model.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name), "{place}: unclear: {error}");
    } else {
        assert_eq!(loaded.fingerprint, expected, "{place}: {loaded:?}");
        let explained = loaded.bytes_private == 0 || loaded.private_reason.is_some();
        assert!(explained, "{place}: {loaded:?}");
    }
    loaded
}

fn load_all(limits: impl IntoIterator<Item = Limit>, threads: &[usize]) {
    let Setting { scratch, expected } = setting();
    let agent = scratch.agent().unwrap();
    let store = agent.store().unwrap();
    for limit in limits {
        for &threads in threads {
            let root = Some(scratch.root());
            load(root, &scratch.model("known"), &expected[0], threads, limit);
            load(
                root,
                &scratch.model("unknown"),
                &expected[1],
                threads,
                limit,
            );
            load(None, &scratch.model("known"), &expected[0], threads, limit);
            // Unknown again.
            let unknown = agent.load(scratch.model("unknown")).unwrap();
            let objects: Vec<_> = unknown.objects().collect();
            drop(unknown);
            for object in objects {
                store.reclaim(&object).unwrap();
            }
            for (id, _) in store.identities().unwrap() {
                let known = id_of(&scratch, "known");
                if id != known {
                    store.remove_identity(id).unwrap();
                }
            }
        }
    }
}

fn id_of(scratch: &Scratch, name: &str) -> tetris_store_layout::IdentityId {
    use tetris_store_layout::{FileIdentity, FileSystem, IdentityBy, IdentityKey, ManifestKind};
    let model = std::fs::File::open(scratch.model(name)).unwrap();
    let file = FileIdentity::of(&model.metadata().unwrap());
    let system = FileSystem::of(&model, &file).unwrap();
    let key = IdentityKey {
        kind: ManifestKind::Safetensors,
        by: IdentityBy::Stat { file, system },
    };
    key.id()
}

#[test]
fn a_process_at_its_limit_of_descriptors_loads_correctly_or_says_so() {
    load_all(
        [0, 1, 2, 3, 4, 5, 6, 8, 12].map(Limit::Descriptors),
        &[1, 4],
    );
}

#[test]
fn a_process_with_a_few_descriptors_left_shares_everything() {
    let Setting { scratch, expected } = setting();
    for (name, expected) in ["known", "unknown"].iter().zip(&expected) {
        let limit = Limit::Descriptors(16);
        let loaded = load(
            Some(scratch.root()),
            &scratch.model(name),
            expected,
            4,
            limit,
        );
        assert_eq!((loaded.error, loaded.bytes_private), (None, 0), "{name}");
    }
}

#[test]
fn a_process_at_its_limit_of_mappings_loads_correctly_or_says_so() {
    load_all([0, 1, 3, 10, 30, 100].map(Limit::Mappings), &[1]);
}

#[test]
fn a_process_that_reaches_its_limit_of_mappings_loads_correctly_or_says_so() {
    load_all([0, 60, 80, 100, 120].map(Limit::Mappings), &[4]);
}

#[test]
fn a_process_at_its_limit_of_address_space_loads_correctly_or_says_so() {
    load_all([0, 4 << 20, 12 << 20].map(Limit::AddressSpace), &[1]);
}

#[test]
fn a_process_that_cannot_start_threads_loads_correctly_or_says_so() {
    load_all([0, 1 << 20].map(Limit::AddressSpace), &[4]);
}
