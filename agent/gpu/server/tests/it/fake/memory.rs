//! Device memory that is full, counted, and used by several threads and processes.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::Arc;

use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::{DeviceMemory, Exported, HostSlice, MemoryError, Protection};

use crate::fake_driver::FakeDriver;
use crate::mirror::{MIB, eventually};
use crate::support;

fn free<D: DeviceMemory>(device: &D) -> u64 {
    device.info().unwrap().free_bytes
}

/// Allocates all memory, checks the numbers of the refusal, and allocates freed memory again.
fn fill_up<D: DeviceMemory>(device: &D) {
    let info = device.info().unwrap();
    let total = info.free_bytes;
    let mut chunks = Vec::new();
    let error = loop {
        match device.create(4 * MIB) {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => break error,
        }
    };
    assert_eq!(chunks.len() as u64, total / (4 * MIB));
    let full = MemoryError::OutOfMemory {
        asked_bytes: 4 * MIB,
        free_bytes: total % (4 * MIB),
        total_bytes: info.total_bytes,
    };
    assert_eq!(error.to_string(), full.to_string());
    drop(chunks.pop());
    assert_eq!(free(device), 4 * MIB + total % (4 * MIB));
    device.release(device.create(4 * MIB).unwrap()).unwrap();
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn filling_up() {
    fill_up(&VmmDevice::open(0).unwrap());
    fill_up(&IpcDevice::open(0).unwrap());
}

#[test]
fn a_full_device_says_how_full() {
    for driver in FakeDriver::each() {
        let driver = driver.with_room(18);
        driver.run_one("fake::memory::filling_up");
        driver.check();
    }
}

/// Maps the inherited chunk, reports it, and waits to be killed.
fn hold<D: DeviceMemory>(device: &D) -> ! {
    let (exported, bytes) = support::inherited();
    let chunk = device.import(exported, bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let protection = device.capabilities().client_protection();
    let _mapping = device.map(range, &chunk, protection).unwrap();
    println!("\npeer: mapped");
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn holder_of_a_descriptor() {
    hold(&VmmDevice::open(0).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn holder_of_a_handle() {
    hold(&IpcDevice::open(0).unwrap());
}

/// A process that is killed, also when the test fails.
struct Holder(Child);

impl Holder {
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        let rest = BufReader::new(self.0.stdout.take().unwrap());
        assert_eq!(rest.lines().map_while(Result::ok).count(), 0);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have been killed.
        let _killed = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Memory stays allocated until its last process is gone, for any reason. The context of each
/// process is memory too, and that of the dead may come back late.
fn last_holder_frees<D: DeviceMemory>(device: &D, holder: &str) {
    let total = free(device);
    let chunk = device.create(8 * MIB).unwrap();
    let start = || {
        Holder(support::start(
            holder,
            device.export(&chunk).unwrap(),
            8 * MIB,
        ))
    };
    let mut holders = [start(), start()];
    for holder in &mut holders {
        assert_eq!(support::answer(&mut holder.0).unwrap(), "mapped");
    }
    let shared = free(device);
    let context = (total - 8 * MIB - shared) / 2;
    assert_eq!(shared + 2 * context, total - 8 * MIB, "one copy");
    drop(chunk);
    assert_eq!(free(device), shared, "others have it");
    let [one, other] = holders;
    one.kill();
    eventually("the dead one's context is free", || {
        let free = free(device);
        assert!(free < total - 8 * MIB || context == 0, "another has it");
        free == shared + context
    });
    other.kill();
    eventually("nobody has it", || free(device) == total);
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn owner_of_memory() {
    last_holder_frees(
        &VmmDevice::open(0).unwrap(),
        "fake::memory::holder_of_a_descriptor",
    );
    last_holder_frees(
        &IpcDevice::open(0).unwrap(),
        "fake::memory::holder_of_a_handle",
    );
}

#[test]
fn memory_is_free_again_when_its_last_holder_is_killed() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::memory::owner_of_memory");
        driver.check();
    }
}

/// The driver's own descriptors would be inherited.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn exporter() {
    let device = VmmDevice::open(0).unwrap();
    let chunk = device.create(2 * MIB).unwrap();
    let Exported::Descriptor(file) = device.export(&chunk).unwrap() else {
        panic!("expected a descriptor");
    };
    let flags = rustix::io::fcntl_getfd(&file).unwrap();
    assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
}

#[test]
fn exported_descriptors_are_not_inherited() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::memory::exporter");
        driver.check();
    }
}

/// Creates, copies and reads, on a separate stream.
fn use_device<D: DeviceMemory>(device: &D, seed: u8) {
    for round in 0..8 {
        let chunk = device.create(2 * MIB).unwrap();
        let range = device.reserve(2 * MIB).unwrap();
        let mapping = Arc::new(device.map(range, &chunk, Protection::ReadWrite).unwrap());
        let mut stream = device.stream().unwrap();
        let bytes = vec![seed ^ round; MIB as usize];
        for offset in [0, MIB] {
            let from = HostSlice::whole(Arc::new(bytes.clone()));
            device.copy_in(&mut stream, &mapping, offset, from).unwrap();
        }
        let event = device.record(&mut stream).unwrap();
        device.wait(&event).unwrap();
        let mut content = vec![0; MIB as usize];
        device.read_back(&mapping, MIB, &mut content).unwrap();
        assert!(content == bytes);
    }
}

fn use_in_threads<D: DeviceMemory + Clone + 'static>(device: &D) {
    let threads: Vec<_> = (0..6)
        .map(|seed| {
            let device = device.clone();
            std::thread::spawn(move || use_device(&device, seed * 16))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn many_threads() {
    use_in_threads(&VmmDevice::open(0).unwrap());
    use_in_threads(&IpcDevice::open(0).unwrap());
}

#[test]
fn threads_use_a_device_at_the_same_time() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::memory::many_threads");
        driver.check();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn two_devices() {
    let (zero, one) = (VmmDevice::open(0).unwrap(), VmmDevice::open(1).unwrap());
    assert_ne!(zero.info().unwrap().uuid, one.info().unwrap().uuid);
    let chunk = zero.create(4 * MIB).unwrap();
    assert_eq!(free(&one) - free(&zero), 4 * MIB);
    // A device cannot map the memory of another one, unless they are peers.
    let exported = zero.export(&chunk).unwrap();
    let imported = one.import(exported, 4 * MIB).unwrap();
    let range = one.reserve(4 * MIB).unwrap();
    let mapped = one.map(range, &imported, Protection::ReadOnly);
    let error = mapped.unwrap_err().to_string();
    assert!(error.contains("CUDA_ERROR_INVALID_DEVICE"), "{error}");
    // A chunk shorter than announced is refused, and nothing of it stays.
    let exported = zero.export(&chunk).unwrap();
    let imported = zero.import(exported, 8 * MIB).unwrap();
    let range = zero.reserve(8 * MIB).unwrap();
    let error = zero
        .map(range, &imported, Protection::ReadOnly)
        .unwrap_err();
    assert!(
        matches!(error, MemoryError::Driver { code: 1, .. }),
        "{error}"
    );
    use_device(&zero, 1);
    use_device(&one, 2);
}

#[test]
fn devices_are_separate() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DEVICES", 2);
        driver.run_one("fake::memory::two_devices");
        driver.check();
    }
}

/// Empty copies are not passed to the driver.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn nothing_to_copy() {
    let device = VmmDevice::open(0).unwrap();
    let chunk = device.create(2 * MIB).unwrap();
    let range = device.reserve(2 * MIB).unwrap();
    let mapping = Arc::new(device.map(range, &chunk, Protection::ReadWrite).unwrap());
    let mut stream = device.stream().unwrap();
    let nothing = HostSlice::whole(Arc::new(Vec::new()));
    for offset in [0, 2 * MIB] {
        let copied = device.copy_in(&mut stream, &mapping, offset, nothing.clone());
        copied.unwrap();
        device.read_back(&mapping, offset, &mut []).unwrap();
    }
    device.synchronize(&mut stream).unwrap();
}

#[test]
fn the_driver_is_not_asked_to_copy_nothing() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::memory::nothing_to_copy");
        driver.check();
    }
}
