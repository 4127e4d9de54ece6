//! Leases of simulated devices: their end, and their use in a forked child.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tetris_gpu_client::ClientError;
use tetris_gpu_device::MemoryKind;
use tetris_store_layout::ObjectRef;

use super::fake::{Fake, Fate};
use crate::device::lease::Lease;
use crate::device::{DeviceError, Location};
use crate::{DetachedTensor, Dtype, Origin, Region};

fn object() -> ObjectRef {
    ObjectRef::of(b"bytes")
}

fn lease(kind: MemoryKind, location: Location, fate: &Fate) -> Lease {
    let fake = Box::new(Fake::new(kind, &[object()], fate));
    Lease::new(vec![fake], location, &[object()], Vec::new()).unwrap()
}

fn cuda(fate: &Fate) -> Lease {
    lease(MemoryKind::CudaDescriptors, Location::Cuda(0), fate)
}

fn simulated(fate: &Fate) -> Lease {
    lease(MemoryKind::Host, Location::Simulated, fate)
}

#[test]
fn a_gpus_model_ends_for_everybody_who_has_the_connection() {
    let fate = Fate::default();
    drop(cuda(&fate));
    assert_eq!(fate.ends(), ["hung up"]);
}

#[test]
fn the_simulated_devices_model_ends_for_this_process() {
    let fate = Fate::default();
    drop(simulated(&fate));
    assert_eq!(fate.ends(), ["dropped"]);
}

#[test]
fn a_child_calls_no_driver_and_takes_nothing_from_its_parent() {
    let fate = Fate::default();
    fate.arrived.store(true, Ordering::Relaxed);
    let mut lease = cuda(&fate);
    assert!(lease.wait(None, Duration::ZERO).unwrap());
    lease.become_a_children();
    let id = object().id;
    for result in [
        lease.wait(None, Duration::ZERO).map(drop),
        lease.wait(Some(&id), Duration::ZERO).map(drop),
        lease.read(&id, 0, &mut [0; 5]),
        lease.resident_bytes().map(drop),
    ] {
        assert!(matches!(result, Err(DeviceError::Forked { .. })));
    }
    assert!(!lease.is_usable());
    drop(lease);
    assert_eq!(fate.ends(), ["abandoned"]);
}

#[test]
fn a_child_has_of_the_simulated_device_what_had_arrived() {
    let fate = Fate::default();
    let mut early = simulated(&fate);
    early.become_a_children();
    fate.arrived.store(true, Ordering::Relaxed);
    let waited = early.wait(None, Duration::ZERO);
    assert!(matches!(waited, Err(DeviceError::Forked { .. })));

    let mut late = simulated(&fate);
    assert!(late.wait(None, Duration::ZERO).unwrap());
    late.become_a_children();
    assert!(late.wait(Some(&object().id), Duration::ZERO).unwrap());
    // A load in the child acquires the model anew.
    assert!(!late.is_usable());
    drop(late);
    assert_eq!(fate.ends(), ["dropped"]);
}

#[test]
fn with_legacy_handles_the_memory_ends_with_the_mirror() {
    let fate = Fate::default();
    fate.arrived.store(true, Ordering::Relaxed);
    let legacy = lease(MemoryKind::CudaHandles, Location::Cuda(0), &fate);
    let other = cuda(&fate);
    for lease in [&legacy, &other] {
        assert!(lease.wait(None, Duration::ZERO).unwrap());
    }
    fate.lost.store(true, Ordering::Relaxed);
    let waited = legacy.wait(None, Duration::ZERO);
    assert!(matches!(waited, Err(DeviceError::Ended)));
    assert!(!legacy.is_usable());
    assert!(other.wait(None, Duration::ZERO).unwrap());
    assert!(other.is_usable());
}

#[test]
fn a_lease_that_ended_before_everything_arrived_is_not_shared() {
    let fate = Fate::default();
    let lease = cuda(&fate);
    assert!(lease.is_usable());
    fate.lost.store(true, Ordering::Relaxed);
    assert!(!lease.is_usable());
}

#[test]
fn a_mirror_that_gives_other_objects_is_not_believed() {
    let other = ObjectRef::of(b"other");
    let longer = ObjectRef {
        len: object().len + 1,
        ..object()
    };
    for wanted in [[other], [longer]] {
        let fate = Fate::default();
        let fake = Box::new(Fake::new(MemoryKind::Host, &[object()], &fate));
        let lease = Lease::new(vec![fake], Location::Simulated, &wanted, Vec::new());
        let error = lease.unwrap_err();
        assert!(
            matches!(error, DeviceError::Mirror(ClientError::Unexpected { .. })),
            "{error}"
        );
    }
}

#[test]
fn references_in_the_store_are_held_until_everything_has_arrived() {
    let region = Arc::new(Region::zeroed(5).unwrap());
    let tensor = DetachedTensor {
        name: "a".to_owned(),
        dtype: Dtype::U8,
        shape: vec![5],
        id: None,
        origin: Origin::Private,
        len: 5,
        offset: 0,
        region: Some(Arc::clone(&region)),
    };
    let fate = Fate::default();
    let fake = Box::new(Fake::new(MemoryKind::Host, &[object()], &fate));
    let lease = Lease::new(vec![fake], Location::Simulated, &[object()], vec![tensor]).unwrap();
    assert!(!lease.wait(None, Duration::ZERO).unwrap());
    assert_eq!(Arc::strong_count(&region), 2);
    assert_eq!(lease.resident_bytes().unwrap(), 0);
    fate.arrived.store(true, Ordering::Relaxed);
    assert!(lease.wait(None, Duration::ZERO).unwrap());
    assert_eq!(Arc::strong_count(&region), 1);
    assert_eq!(lease.resident_bytes().unwrap(), 5);
}
