//! A store with as many objects and records as a node may have: its passes, and restarts of the daemon.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use tetris_store_layout::{
    Access, DerivedKey, Digest, Dtype, IdentityBy, IdentityKey, Layout, LayoutKey, Manifest,
    ManifestKind, ManifestObject, ManifestTensor, ObjectKind, ObjectRef, Store, TensorId,
    TensorPlace,
};

use super::harness::{Daemon, Place, eventually};
use super::opens::Opens;
use crate::private_memory::private_bytes_of;

const OBJECTS: u32 = 100_000;
/// Records of each kind; with identities, manifests, derived tensors and layouts as many as a store keeps.
const RECORDS: u32 = 8_192;
const OBJECTS_OF_MODEL: u32 = 12;
/// Number of sources of each layout, whose table takes 8 MiB.
const SOURCES: u32 = 1 << 18;
const HEAP: u64 = 128 << 20;

fn object(number: u32) -> ObjectRef {
    ObjectRef::of(&number.to_le_bytes())
}

/// Writes objects as if they had been published.
fn write_objects(store: &Store) {
    for number in 0..OBJECTS {
        let path = store.object_path(&object(number));
        std::fs::write(&path, number.to_le_bytes()).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
    }
}

fn manifest(number: u32) -> Manifest {
    let first = number * OBJECTS_OF_MODEL;
    Manifest {
        kind: ManifestKind::Safetensors,
        source_size: 8 + u64::from(OBJECTS_OF_MODEL) * 4,
        data_start: 8,
        header_digest: Digest::of(&number.to_le_bytes()),
        metadata: Vec::new(),
        objects: (first..first + OBJECTS_OF_MODEL)
            .map(|number| ManifestObject {
                object: object(number),
                kind: ObjectKind::Tensor,
            })
            .collect(),
        tensors: (0..OBJECTS_OF_MODEL)
            .map(|index| ManifestTensor {
                name: index.to_string(),
                dtype: Dtype::U8,
                shape: vec![4],
                id: TensorId(object(first + index).id.0),
                len: 4,
                source_offset: u64::from(index) * 4,
                place: Some(TensorPlace {
                    object: index,
                    offset: 0,
                }),
            })
            .collect(),
    }
}

fn write_records(store: &Store) {
    let sources = (0..SOURCES).map(|number| TensorId::of(&number.to_le_bytes()));
    let table = Layout {
        sources: sources.collect(),
        objects: (0..OBJECTS_OF_MODEL).map(object).collect(),
        ..Layout::default()
    };
    let table = store.publish(&table.encode(), Access::ReadOnly).unwrap();
    for number in 0..RECORDS {
        let id = store.publish_manifest(&manifest(number)).unwrap();
        let digest = Digest::of(&number.to_le_bytes()).0;
        let key = IdentityKey {
            kind: ManifestKind::Safetensors,
            by: IdentityBy::Sha256 { digest, size: 8 },
        };
        store.bind(&key, id).unwrap();
        let source = TensorId::of(&number.to_le_bytes());
        let key = DerivedKey::new(source, "cast", 1).unwrap();
        store.record_derived(&key, object(number)).unwrap();
        let key = LayoutKey::new("pack", number).derived_key().unwrap();
        store.record_derived(&key, table.object).unwrap();
    }
}

/// Starts the daemon, and waits until it is ready. Returns it with the time in seconds that this took.
fn ready(place: &Place) -> (Daemon, f64) {
    let config = place.config("listen = \"127.0.0.1:0\"\n[scrub]\nenabled = false\n");
    let began = Instant::now();
    let daemon = Daemon::start(&config, &[]);
    eventually("readiness", || {
        daemon.get("/readyz").contains(" 200 OK").then_some(())
    });
    (daemon, began.elapsed().as_secs_f64())
}

#[test]
fn a_daemon_restarts_with_a_hundred_thousand_objects_and_all_records() {
    let place = Place::new();
    let store = place.store();
    write_objects(&store);
    write_records(&store);
    assert_eq!(store.record_use().unwrap().files, u64::from(4 * RECORDS));
    for start in ["start", "restart"] {
        let (daemon, seconds) = ready(&place);
        let heap = private_bytes_of(daemon.pid());
        eprintln!(
            "{start}: ready after {seconds:.1} s, {} MiB of heap",
            heap >> 20
        );
        assert!(heap < HEAP, "{start}: {heap} bytes");
        let records = daemon.metric("tetris_store_records{store=\"a\"}");
        assert_eq!(records as u64, u64::from(4 * RECORDS));
        assert!(daemon.stop().success());
    }
    // Work is counted, since time depends on the machine.
    let Some(opens) = Opens::of_records(store.root()) else {
        return;
    };
    let (daemon, _) = ready(&place);
    let opened = opens.count();
    eprintln!("{opened} records were opened");
    assert!(opened <= u64::from(4 * RECORDS), "{opened} opens");
    drop(daemon);
}
