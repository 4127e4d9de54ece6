//! One allocation that a process imports more than once.

use tetris_gpu_device::cuda::{VmmDevice, VmmMapping};
use tetris_gpu_device::{DeviceMemory, Exported, Mapped, Protection};

use crate::cuda::number;
use crate::fake::served::{Served, acquire, check, told};
use crate::mirror::process::tell;
use crate::support;

fn imported(device: &VmmDevice, exported: Exported, bytes: u64) -> VmmMapping {
    let chunk = device.import(exported, bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadOnly);
    mapping.unwrap()
}

fn has_only(device: &VmmDevice, mapping: &VmmMapping, byte: u8) {
    let mut found = vec![0; mapping.bytes() as usize];
    device.read_back(mapping, 0, &mut found).unwrap();
    assert!(found.iter().all(|found| *found == byte));
}

/// Imports the inherited chunk twice.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn importer_of_one_chunk() {
    let device = VmmDevice::open(number()).unwrap();
    let import = || {
        let (exported, bytes) = support::inherited();
        imported(&device, exported, bytes)
    };
    let (one, other) = (import(), import());
    assert_ne!(one.address(), other.address());
    has_only(&device, &one, 7);
    has_only(&device, &other, 7);
    drop(one);
    has_only(&device, &other, 7);
    let again = import();
    has_only(&device, &again, 7);
    tell("imported twice");
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_a_process_imports_a_chunk_twice() {
    let device = VmmDevice::open(number()).unwrap();
    let bytes = device.capabilities().granule_bytes;
    let chunk = device.create(bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadWrite).unwrap();
    device.overwrite(&mapping, 7).unwrap();
    let exported = device.export(&chunk).unwrap();
    let mut child = support::start("gpu::imports::importer_of_one_chunk", exported, bytes);
    assert_eq!(support::answer(&mut child).unwrap(), "imported twice");
    child.wait().unwrap();
    // Its creator imports it too, and keeps it when its other handles are gone.
    let import = || imported(&device, device.export(&chunk).unwrap(), bytes);
    let (one, other) = (import(), import());
    drop((one, mapping, chunk));
    has_only(&device, &other, 7);
}

/// Acquires the model by two connections.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_with_two_connections() {
    let device = VmmDevice::open(number()).unwrap();
    let (socket, objects) = told();
    let acquire = || acquire(&socket, &objects, device.clone()).unwrap();
    let (one, other) = (acquire(), acquire());
    check(&one);
    check(&other);
    one.release().unwrap();
    check(&other);
    let again = acquire();
    other.release().unwrap();
    check(&again);
    tell("acquired twice");
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_a_process_has_a_model_twice() {
    let served = Served::new(VmmDevice::open(number()).unwrap());
    let mut client = served.client("gpu::imports::client_with_two_connections", &[]);
    assert_eq!(client.hear(), "acquired twice");
    client.ended();
    check(&served.load().unwrap());
}

#[test]
fn an_allocation_is_imported_twice_with_the_fake_driver() {
    super::with_both("imports", |driver| driver);
}
