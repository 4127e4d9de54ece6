//! Tests of the shared part.

use crate::profiling::run::{Case, cgroups_or_skip, stderr};
use tetris_store_layout::{
    Access, CreateOptions, Digest, Manifest, ManifestKind, ManifestObject, ObjectKind, ObjectRef,
    Store,
};

fn file_manifest(object: ObjectRef) -> Manifest {
    Manifest {
        kind: ManifestKind::File,
        source_size: object.len,
        data_start: 0,
        header_digest: Digest::of(b""),
        metadata: Vec::new(),
        objects: vec![ManifestObject {
            object,
            kind: ObjectKind::File,
        }],
        tensors: Vec::new(),
    }
}

fn one(store: &str) -> [&str; 8] {
    [
        "--cpus",
        "1",
        "--batch",
        "1",
        "--concurrency",
        "1",
        "--store",
        store,
    ]
}

#[test]
fn objects_that_are_mapped_are_recorded_and_are_not_own_memory() {
    let case = Case::new();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
    let big = store
        .publish(&vec![7; 64 << 20], Access::ReadOnly)
        .unwrap()
        .object;
    let small = store.publish(&[1; 100], Access::ReadOnly).unwrap().object;
    // The server maps no object of 10 bytes or less.
    let unmapped = store.publish(&[2; 5], Access::ReadOnly).unwrap().object;
    let of_big = store.publish_manifest(&file_manifest(big)).unwrap();
    store.publish_manifest(&file_manifest(unmapped)).unwrap();
    let path = dir.path().to_str().unwrap();
    let profile = case.profile(&one(path), &["--store", path, "--own-mib", "10"]);
    let spec = &profile.spec;
    let objects: Vec<_> = spec
        .objects
        .iter()
        .map(|spec| (spec.id.clone(), spec.bytes))
        .collect();
    assert_eq!(
        objects,
        [(big.id.to_string(), 64 << 20), (small.id.to_string(), 100)]
    );
    assert_eq!(spec.manifests, [of_big.to_string()]);
    assert_eq!(spec.unlisted_bytes, 0);
    if cgroups_or_skip("private memory without the store's") {
        assert!(spec.configurations[0].own_bytes < 64 << 20);
    }
}

#[test]
fn a_store_that_nobody_maps_is_told_of() {
    let case = Case::new();
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    Store::create(dir.path(), &CreateOptions::default()).unwrap();
    let path = dir.path().to_str().unwrap();
    let output = case.run(&one(path), &[]);
    assert!(
        stderr(&output).contains("mapped no object of the store"),
        "{}",
        stderr(&output)
    );
    let output = Case::new().run(&["--store", "/proc"], &[]);
    assert!(
        stderr(&output).contains("`/proc` is not a tensor store"),
        "{}",
        stderr(&output)
    );
}
