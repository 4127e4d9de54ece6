//! The same rules on real devices. On a machine with one:
//!
//!     cargo test -p tetris-gpu-mirror --test cuda -- --ignored cuda_
//!
//! `TETRIS_CUDA_DEVICE` chooses the device (0). Without a driver only the first test has something to say.

mod support;

use tetris_gpu_mirror::conformance;
use tetris_gpu_mirror::memory::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_mirror::memory::{DeviceMemory, MemoryError};

fn number() -> u32 {
    let chosen = std::env::var("TETRIS_CUDA_DEVICE").ok();
    chosen.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn a_machine_without_a_driver_says_so_once_and_clearly() {
    let found = match device_count() {
        Ok(count) => {
            println!(
                "SKIPPED: a_machine_without_a_driver_says_so_once_and_clearly: {count} devices here"
            );
            return;
        }
        Err(error) => error,
    };
    assert!(matches!(found, MemoryError::NoDriver { .. }), "{found}");
    let text = found.to_string();
    assert!(text.starts_with("no usable CUDA driver: "), "{text}");
    assert!(text.contains("host memory"), "what happens instead: {text}");
    // The same answer from everywhere, and no panic.
    for error in [
        VmmDevice::open(0).unwrap_err(),
        IpcDevice::open(0).unwrap_err(),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_descriptors_conform() {
    let device = VmmDevice::open(number()).unwrap();
    println!("{:?}\n{:?}", device.info().unwrap(), device.capabilities());
    conformance::check(&device, &mut |exported, bytes| {
        support::ask("peer_by_descriptor", exported, bytes)
    })
    .unwrap();
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_legacy_handles_conform() {
    let device = IpcDevice::open(number()).unwrap();
    println!("{:?}\n{:?}", device.info().unwrap(), device.capabilities());
    conformance::check(&device, &mut |exported, bytes| {
        support::ask("peer_by_handle", exported, bytes)
    })
    .unwrap();
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_pages_of_the_store_reach_the_device() {
    support::store_pages_reach_the_device(&VmmDevice::open(number()).unwrap());
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_devices_that_are_not_there_are_refused() {
    let count = device_count().unwrap();
    for number in [count, u32::MAX] {
        let error = VmmDevice::open(number).unwrap_err();
        assert!(matches!(error, MemoryError::NoSuchDevice { .. }), "{error}");
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn peer_by_descriptor() {
    support::report(&VmmDevice::open(number()).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn peer_by_handle() {
    support::report(&IpcDevice::open(number()).unwrap());
}
