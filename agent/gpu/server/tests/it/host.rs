//! The simulated device follows the rules of devices, across processes, and fails on request.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::conformance;
use tetris_gpu_device::host::{Faults, HostDevice};
use tetris_gpu_device::{DeviceMemory, Exported, HostSlice, MemoryError, Protection};

use crate::support;

const GRANULE: u64 = 2 << 20;

fn device() -> HostDevice {
    HostDevice::new(64 << 20)
}

#[test]
fn the_simulated_device_conforms() {
    let device = device();
    conformance::check(&device, &mut |exported, bytes| {
        support::ask("host::peer", exported, bytes)
    })
    .unwrap();
    let info = device.info().unwrap();
    assert_eq!(
        info.free_bytes, info.total_bytes,
        "everything was given back"
    );
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn peer() {
    support::report(&device());
}

/// Maps the chunk, reports it, and waits to be killed.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn holder() {
    let device = device();
    let (exported, bytes) = support::inherited();
    let chunk = device.import(exported, bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadOnly).unwrap();
    let mut first = [0; 4];
    device.read_back(&mapping, 0, &mut first).unwrap();
    println!("\npeer: {first:?}");
    loop {
        thread::park();
    }
}

#[test]
fn memory_is_free_if_its_last_user_lets_go_a_moment_later() {
    let device = device();
    let is_freed = |_| {
        let chunk = device.create(GRANULE).unwrap();
        let range = device.reserve(GRANULE).unwrap();
        let mapping = device.map(range, &chunk, Protection::ReadWrite).unwrap();
        let exported = device.export(&chunk).unwrap();
        let user = thread::spawn(move || {
            thread::sleep(Duration::from_millis(3));
            drop(exported);
        });
        let is_freed = device.reclaim(chunk, mapping).unwrap();
        user.join().unwrap();
        is_freed
    };
    // On a busy machine the moment may be too long.
    assert!((0..5).any(is_freed));
}

#[test]
fn a_killed_client_takes_nothing_along() {
    let device = device();
    let chunk = device.create(GRANULE).unwrap();
    let range = device.reserve(GRANULE).unwrap();
    let mapping = Arc::new(device.map(range, &chunk, Protection::ReadWrite).unwrap());
    let mut stream = device.stream().unwrap();
    let from = HostSlice::whole(Arc::new(vec![9u8; 4]));
    device.copy_in(&mut stream, &mapping, 0, from).unwrap();
    device.synchronize(&mut stream).unwrap();
    for _ in 0..2 {
        let mut client = support::start("host::holder", device.export(&chunk).unwrap(), GRANULE);
        assert_eq!(support::answer(&mut client).unwrap(), "[9, 9, 9, 9]");
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let mut bytes = [0; 4];
    device.read_back(&mapping, 0, &mut bytes).unwrap();
    assert_eq!(bytes, [9; 4]);
    drop((mapping, stream, chunk));
    assert_eq!(device.info().unwrap().free_bytes, 64 << 20);
}

#[test]
fn pages_of_the_store_reach_the_simulated_device() {
    support::store_pages_reach_the_device(&device());
}

#[test]
fn a_full_device_and_injected_faults_are_refusals() {
    let small = HostDevice::new(2 * GRANULE);
    let first = small.create(2 * GRANULE).unwrap();
    let full = small.create(GRANULE).unwrap_err();
    assert!(matches!(
        full,
        MemoryError::OutOfMemory {
            asked_bytes: GRANULE,
            free_bytes: 0,
            ..
        }
    ));
    drop(first);
    let chunk = small.create(GRANULE).unwrap();
    small.set_faults(Faults {
        creates: 0,
        imports: 1,
        ..Faults::default()
    });
    assert!(matches!(
        small.create(GRANULE),
        Err(MemoryError::OutOfMemory { .. })
    ));
    assert!(small.import(small.export(&chunk).unwrap(), GRANULE).is_ok());
    let refused = small.import(small.export(&chunk).unwrap(), GRANULE);
    assert!(matches!(refused, Err(MemoryError::Import { .. })));
}

/// A hostile sender could shrink an unsealed file under our mapping, or announce a wrong length.
#[test]
fn only_sealed_memory_of_the_stated_length_is_imported() {
    let device = device();
    let chunk = device.create(GRANULE).unwrap();
    let lie = device.import(device.export(&chunk).unwrap(), 2 * GRANULE);
    assert!(matches!(lie, Err(MemoryError::Import { .. })));
    let unsealed =
        rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&unsealed, GRANULE).unwrap();
    let cut = device.import(Exported::Descriptor(unsealed), GRANULE);
    assert!(matches!(cut, Err(MemoryError::Import { .. })));
}

#[test]
fn copies_happen_when_they_are_waited_for_and_not_before() {
    let device = device();
    let chunk = device.create(GRANULE).unwrap();
    let range = device.reserve(GRANULE).unwrap();
    let mapping = Arc::new(device.map(range, &chunk, Protection::ReadWrite).unwrap());
    let mut stream = device.stream().unwrap();
    let mut copy = |value: u8| {
        let from = HostSlice::whole(Arc::new(vec![value]));
        device.copy_in(&mut stream, &mapping, 0, from).unwrap();
        device.record(&mut stream).unwrap()
    };
    let (first, second) = (copy(1), copy(2));
    let value = || {
        let mut byte = [0];
        device.read_back(&mapping, 0, &mut byte).unwrap();
        byte[0]
    };
    assert_eq!(value(), 0);
    device.wait(&first).unwrap();
    assert_eq!(value(), 1);
    assert!(device.is_done(&second).unwrap());
    assert_eq!(value(), 2);
}
