//! Workers: the same result with every method, and no failure stays unnoticed.

use tetris_density::Error;
use tetris_density::methods::{Loader, tetris};
use tetris_density::system::store::StorePlace;

use crate::common;

#[test]
fn all_loaders_compute_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let file = common::tiny_file(directory.path());
    let store = StorePlace::create(directory.path(), 64 << 20).unwrap();
    tetris::create_store(store.path()).unwrap();
    let mut checksums = Vec::new();
    for loader in [
        Loader::Heap,
        Loader::FileMap,
        Loader::Mergeable,
        Loader::Tetris,
        Loader::Tetris,
    ] {
        let mut worker = common::launcher().start(loader).unwrap();
        let times = worker
            .load(loader, std::slice::from_ref(&file), Some(store.path()))
            .unwrap();
        assert_eq!(times.tensor_bytes, common::tiny().bytes());
        assert_eq!(times.tensors, common::tiny().tensors.len() as u64);
        assert!(times.first_result_ns >= times.attach_ns + times.touch_ns);
        let (passes, checksum) = worker.pass(2).unwrap();
        assert_eq!((passes.len(), &checksum), (2, &times.checksum));
        checksums.push(checksum);
    }
    checksums.dedup();
    assert_eq!(checksums.len(), 1, "{checksums:?}");
}

#[test]
fn a_changed_weight_changes_the_checksum() {
    let directory = tempfile::tempdir().unwrap();
    let file = common::tiny_file(directory.path());
    let mut worker = common::launcher().start(Loader::Heap).unwrap();
    let before = worker
        .load(Loader::Heap, std::slice::from_ref(&file), None)
        .unwrap()
        .checksum;
    let mut bytes = std::fs::read(&file).unwrap();
    // The top byte of the last weight: its exponent.
    *bytes.last_mut().unwrap() ^= 0x10;
    std::fs::write(&file, bytes).unwrap();
    assert_ne!(
        before,
        worker.load(Loader::Heap, &[file], None).unwrap().checksum
    );
}

#[test]
fn a_killed_worker_is_reported_with_its_signal() {
    let mut worker = common::launcher().start(Loader::Heap).unwrap();
    worker.kill();
    let error = worker.pass(1).unwrap_err();
    let Error::Died { status, doing, .. } = &error else {
        panic!("{error}")
    };
    assert!(status.contains("signal: 9"), "{status}");
    assert_eq!(*doing, "make a pass");
}

#[test]
fn a_worker_that_cannot_load_says_why_and_lives_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = common::tiny_file(directory.path());
    let mut worker = common::launcher().start(Loader::Heap).unwrap();
    let missing = directory.path().join("missing.safetensors");
    let error = worker.load(Loader::Heap, &[missing], None).unwrap_err();
    let Error::Refused { reason, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        reason.contains("missing.safetensors") && reason.contains("No such file"),
        "{reason}"
    );
    assert!(worker.load(Loader::Heap, &[file], None).is_ok());
}

#[test]
fn a_broken_file_is_refused_without_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("broken.safetensors");
    let mut worker = common::launcher().start(Loader::Heap).unwrap();
    for bytes in [&b""[..], b"short", &[0xff; 64], b"\x02\0\0\0\0\0\0\0{]rest"] {
        std::fs::write(&path, bytes).unwrap();
        for loader in [Loader::Heap, Loader::FileMap, Loader::Mergeable] {
            let error = worker
                .load(loader, std::slice::from_ref(&path), None)
                .unwrap_err();
            assert!(matches!(error, Error::Refused { .. }), "{error}");
        }
    }
}
