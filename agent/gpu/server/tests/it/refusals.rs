//! Refusals and failures after which the server goes on.

use std::sync::Arc;

use tetris_gpu_client::{ClientError, Wanted, WantedModel};
use tetris_gpu_device::MemoryError;
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_protocol::Reason;
use tetris_gpu_server::Limits;
use tetris_gpu_server::residency::TenantId;
use tetris_store_layout::{CreateOptions, Reclaimed, Store};

use crate::mirror::{LONG, MIB, Mirror, check, eventually, free_bytes, manifest, publish, refused};

#[test]
fn what_the_store_lacks_is_said() {
    let mirror = Mirror::new(64);
    let mut objects = mirror.model(&["a", "b", "c"], 10);
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let other = Store::create(elsewhere.path(), &CreateOptions::default()).unwrap();
    objects.extend(publish(&other, &["d", "e"], 10));
    assert_eq!(
        refused(mirror.acquire(&objects)),
        (Reason::MISSING, 20 * 1024, 2)
    );
    let unknown = Wanted::new(WantedModel::Manifests(vec![manifest(
        &other,
        &objects[3..4],
    )]));
    let device = Arc::new(HostDevice::new(0));
    let result = mirror.connect().acquire(device, &unknown, &mut |_| {});
    assert_eq!(refused(result).0, Reason::MISSING);
    objects.truncate(1);
    objects[0].crc ^= 1;
    assert_eq!(refused(mirror.acquire(&objects)).0, Reason::MISSING);
    assert_eq!(mirror.usage().created_bytes, 0);
    assert_eq!(mirror.server.counters().refused, 3);
}

#[test]
fn what_is_resident_needs_nothing_of_the_store() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a", "b"], 100);
    let first = mirror.acquire(&objects).unwrap();
    check(&first, &objects, &["a", "b"], 100);
    first.release().unwrap();
    for object in &objects {
        eventually("the worker lets go of what it has copied", || {
            mirror.server.unpin(TenantId(0));
            mirror.store.reclaim(object).unwrap() != Reclaimed::Referenced
        });
    }
    let second = mirror.acquire(&objects).unwrap();
    check(&second, &objects, &["a", "b"], 100);
}

#[test]
fn models_that_do_not_fit_are_refused_for_a_reason() {
    let mirror = Mirror::with(8, Limits::default(), Some(4));
    let large = mirror.model(&["a"], 9000);
    let (reason, missing, _) = refused(mirror.acquire_within(&large, LONG));
    assert_eq!(
        (reason, missing),
        (Reason::TOO_LARGE, 2 * MIB),
        "no wait helps"
    );
    let (reason, missing, _) = refused(mirror.acquire(&mirror.model(&["b"], 5000)));
    assert_eq!((reason, missing), (Reason::QUOTA, 2 * MIB));
    let empty = refused(mirror.acquire(&[tetris_store_layout::ObjectRef::of(b"")]));
    assert_eq!(empty.0, Reason::INVALID);
}

#[test]
fn a_full_device_is_a_failure_that_passes() {
    let mirror = Mirror::new(64);
    let names = ["a", "b", "c", "d"];
    let objects = mirror.model(&names, 3000);
    mirror.faults(Faults {
        creates: 2,
        ..Faults::default()
    });
    let failed = mirror.acquire(&objects).unwrap_err();
    assert!(
        matches!(failed, ClientError::Failed { reason, .. } if reason == Reason::DEVICE_FULL),
        "{failed:?}"
    );
    assert_eq!(mirror.usage().models, 0, "all or nothing");
    mirror.faults(Faults::default());
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &names, 3000);
    assert_eq!(free_bytes(&mirror.device), 48 * MIB, "nothing leaked");
}

#[test]
fn a_failed_copy_ends_a_model_and_not_the_server() {
    let mirror = Mirror::new(64);
    let objects = mirror.model(&["a", "b"], 3000);
    mirror.faults(Faults {
        copies: 3,
        ..Faults::default()
    });
    let failed = match mirror.acquire(&objects) {
        Ok(model) => model.wait_all(LONG).unwrap_err(),
        Err(failed) => failed,
    };
    assert!(
        matches!(failed, ClientError::Failed { reason, .. } if reason == Reason::COPY_FAILED),
        "{failed:?}"
    );
    mirror.faults(Faults::default());
    let model = mirror.acquire(&objects).unwrap();
    check(&model, &objects, &["a", "b"], 3000);
}

#[test]
fn a_refused_import_leaves_nothing_behind() {
    let mirror = Mirror::new(8);
    let (a, b) = (mirror.model(&["a"], 8000), mirror.model(&["b"], 8000));
    let faults = Faults {
        imports: 0,
        ..Faults::default()
    };
    let device = Arc::new(HostDevice::with_faults(0, faults));
    let wanted = Wanted::new(WantedModel::Objects(a));
    let refused = mirror.connect().acquire(device, &wanted, &mut |_| {});
    assert!(
        matches!(
            refused,
            Err(ClientError::Memory(MemoryError::Import { .. }))
        ),
        "{refused:?}"
    );
    let next = mirror.acquire_within(&b, LONG).unwrap();
    check(&next, &b, &["b"], 8000);
}
