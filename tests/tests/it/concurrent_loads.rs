//! Processes that load at once read each tensor about once in total, and the store has it once.

use std::path::{Path, PathBuf};

use tetris_store_layout::{CreateOptions, Store};
use tetris_tests::check::{require_reclaimable, require_tidy};
use tetris_tests::model::{equal_specs, fingerprint_of_file, write};
use tetris_tests::process::Worker;
use tetris_tests::scratch::Scratch;
use tetris_tests::skip::is_root;
use tetris_tests::task::{Job, LoadTask, Loaded, Task};
use tetris_tests::{skip, worker_exe};

const PROCESSES: usize = 8;
const TENSORS: u64 = 30;
const TENSOR_LEN: usize = 4 << 20;
/// Bytes of the model's tensors.
const MODEL: u64 = TENSORS * TENSOR_LEN as u64;

/// Loads all `models` at once, each in a process, and checks what they get. The models are held
/// until all are loaded.
fn load_at_once(store: &Path, models: &[PathBuf]) -> Vec<Loaded> {
    let expected = fingerprint_of_file(&models[0]).unwrap();
    let mut workers: Vec<_> = models
        .iter()
        .map(|model| Worker::start(worker_exe!(), &LoadTask::of(store, model).into()))
        .collect();
    workers.iter_mut().for_each(Worker::wait_ready);
    workers.iter_mut().for_each(Worker::go);
    let loaded: Vec<_> = workers
        .into_iter()
        .map(|worker| worker.finish().result())
        .collect();
    for loaded in &loaded {
        let Loaded {
            error, fingerprint, ..
        } = loaded;
        assert_eq!((error, fingerprint), (&None, &expected), "{loaded:?}");
    }
    loaded
}

fn sum(loaded: &[Loaded], of: impl Fn(&Loaded) -> u64) -> u64 {
    loaded.iter().map(of).sum()
}

fn assert_once(scratch: &Scratch) {
    let objects = scratch.store().objects().unwrap().objects;
    let stored: u64 = objects.iter().map(|entry| entry.object.len).sum();
    assert_eq!((objects.len() as u64, stored), (TENSORS, MODEL));
    require_tidy(scratch.store(), scratch.empty_usage()).unwrap();
    require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
}

#[test]
fn processes_that_load_one_file_at_once_read_it_once_in_total() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.model("model");
    write(&path, &equal_specs(1, TENSORS, TENSOR_LEN)).unwrap();
    let loaded = load_at_once(scratch.root(), &vec![path; PROCESSES]);
    assert_eq!(sum(&loaded, |loaded| loaded.bytes_private), 0);
    let read = sum(&loaded, |loaded| loaded.bytes_read);
    assert!(read * 10 <= MODEL * 11, "read {read} bytes of {MODEL}");
    assert_eq!(sum(&loaded, |loaded| loaded.bytes_new), MODEL);
    assert_once(&scratch);
}

/// Equal files, one for each process.
fn copies(scratch: &Scratch) -> Vec<PathBuf> {
    let first = scratch.model("model");
    write(&first, &equal_specs(1, TENSORS, TENSOR_LEN)).unwrap();
    let copy = |index| {
        let copy = scratch.model(&format!("copy-{index}"));
        std::fs::copy(&first, &copy).unwrap();
        copy
    };
    (0..PROCESSES).map(copy).collect()
}

#[test]
fn processes_with_copies_of_their_own_keep_one_copy_in_the_store() {
    let scratch = Scratch::new().unwrap();
    let copies = copies(&scratch);
    let loaded = load_at_once(scratch.root(), &copies);
    assert_eq!(sum(&loaded, |loaded| loaded.bytes_private), 0);
    for loaded in &loaded {
        // Its own copy; more than once only where it guessed wrongly what the store has.
        assert!(loaded.bytes_read >= MODEL, "{loaded:?}");
        assert!(loaded.bytes_read <= 2 * MODEL, "{loaded:?}");
    }
    assert_eq!(sum(&loaded, |loaded| loaded.bytes_new), MODEL);
    assert_once(&scratch);
}

#[test]
fn processes_with_copies_of_their_own_load_through_a_store_with_room_for_one() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    // What the processes stage at once is more than the rest of the room.
    let scratch = Scratch::mounted("size=132m").unwrap();
    for loaded in load_at_once(scratch.root(), &copies(&scratch)) {
        // Little is private: only what no one had published when its reader was at the end.
        assert!(loaded.bytes_private * 2 <= MODEL, "{loaded:?}");
    }
    require_tidy(scratch.store(), scratch.empty_usage()).unwrap();
    require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
}

#[test]
fn processes_that_create_one_store_at_once_get_the_same() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    for round in 0..10 {
        let root = dir.path().join(round.to_string());
        let job = Job::new(Task::Create {
            store: root.clone(),
        });
        let mut workers: Vec<_> = (0..PROCESSES)
            .map(|_| Worker::start(worker_exe!(), &job))
            .collect();
        workers.iter_mut().for_each(Worker::wait_ready);
        workers.iter_mut().for_each(Worker::go);
        let ids: Vec<String> = workers
            .into_iter()
            .map(|worker| worker.finish().result())
            .collect();
        let store = Store::create(&root, &CreateOptions::default()).unwrap();
        assert!(
            ids.iter().all(|id| *id == store.id().to_string()),
            "{ids:?}"
        );
    }
}
