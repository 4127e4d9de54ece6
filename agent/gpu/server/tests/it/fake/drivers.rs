//! Several kinds of drivers and devices.

use std::process::Command;

use tetris_gpu_device::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_device::{DeviceMemory, MemoryError};

use crate::fake_driver::{FakeDriver, SOURCES};

const TEXT: &str = "TETRIS_FAKE_EXPECTED";

/// Every function that opens a device returns the same error, with the expected words in it.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn no_driver() {
    let error = device_count().unwrap_err();
    assert!(matches!(error, MemoryError::NoDriver { .. }), "{error}");
    let expected = std::env::var(TEXT).unwrap();
    assert!(error.to_string().contains(&expected), "{error}");
    for other in [
        VmmDevice::open(0).unwrap_err(),
        IpcDevice::open(0).unwrap_err(),
    ] {
        assert_eq!(other.to_string(), error.to_string());
    }
}

fn says(driver: FakeDriver, text: &str) {
    let driver = driver.with_variable(TEXT, text);
    driver.run_one("fake::drivers::no_driver");
    driver.check();
}

#[test]
fn a_driver_that_cannot_start_says_why() {
    let broken = |code: i32| FakeDriver::new().with("INIT", code);
    says(broken(100), "cuInit answered CUDA_ERROR_NO_DEVICE (100)");
    says(broken(803), "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)");
    says(broken(34), "CUDA_ERROR_STUB_LIBRARY (34)");
    says(broken(5555), "names (5555)");
}

#[test]
fn a_driver_that_is_too_old_says_so() {
    says(
        FakeDriver::old(),
        "it has no cuDeviceGetUuid_v2; expected version 11.4 (R470) or later",
    );
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn no_devices() {
    assert_eq!(device_count().unwrap(), 0);
    let error = VmmDevice::open(0).unwrap_err();
    let expected = matches!(error, MemoryError::NoSuchDevice { asked: 0, found: 0 });
    assert!(expected, "{error}");
}

#[test]
fn a_driver_without_devices_is_no_error() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DEVICES", 0);
        driver.run_one("fake::drivers::no_devices");
        driver.check();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn only_legacy() {
    let error = VmmDevice::open(0).unwrap_err();
    assert!(matches!(error, MemoryError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("legacy IPC handles"), "{error}");
    let device = IpcDevice::open(0).unwrap();
    let info = device.info().unwrap();
    assert_eq!(info.name, "Fake GPU 0");
    assert_eq!(info.total_bytes, 512 << 20);
}

#[test]
fn devices_without_descriptors_are_shared_by_legacy_handles() {
    for option in ["VIRTUAL_MEMORY", "DESCRIPTORS"] {
        for driver in FakeDriver::each() {
            let driver = driver.with(option, 0);
            driver.run_one("fake::drivers::only_legacy");
            driver.check();
        }
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn forgetful() {
    let device = VmmDevice::open(0).unwrap();
    let granule = device.capabilities().granule_bytes;
    std::mem::forget(device.create(granule).unwrap());
    std::mem::forget(device.reserve(granule).unwrap());
}

#[test]
fn what_is_left_at_the_end_of_a_process_is_noticed() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::drivers::forgetful");
        let leaks = driver.remembers("leaks");
        assert!(
            leaks.contains("left: 1 reservations, 1 handles, 0 mappings"),
            "{leaks}"
        );
        assert_eq!(driver.remembers("misuse"), "");
    }
}

/// A C program breaks the rules one after the other, and checks the driver's answers.
#[test]
fn the_fake_driver_notices_misuse() {
    // Copies run when a caller waits for them.
    let driver = FakeDriver::new().with("DELAY_US", -1);
    let program = driver.compile("rules", &format!("{SOURCES}/rules/rules.c"));
    let output = Command::new(program)
        .envs(driver.environment())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let noticed = driver.remembers("misuse").lines().count().to_string();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        said.trim(),
        noticed,
        "the driver records each of them: {errors}"
    );
}
