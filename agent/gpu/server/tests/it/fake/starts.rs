//! Drivers and devices that are not ready, not to be had, or for one process.

use tetris_gpu_device::cuda::{VmmDevice, device_count, is_initialized};
use tetris_gpu_device::{DeviceMemory, DeviceMode};
use tetris_gpu_server::ServerConfig;

use crate::fake::served::Served;
use crate::fake_driver::FakeDriver;
use crate::mirror::process::{Process, tell, wait};
use crate::mirror::{self, LONG};

const LIBRARIES: &str = "LD_LIBRARY_PATH";

#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_of_a_broken_driver() {
    let error = device_count().unwrap_err().to_string();
    assert!(error.contains("libcuda.so.1: file too short"), "{error}");
}

/// The dynamic linker knows why.
#[test]
fn a_driver_that_cannot_be_loaded_is_told_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libcuda.so.1"), b"no library").unwrap();
    let driver = FakeDriver::new();
    let driver = driver.with_variable(LIBRARIES, &folder.path().display().to_string());
    driver.run_one("fake::starts::program_of_a_broken_driver");
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_starts_early() {
    assert!(!is_initialized());
    for _ in 0..2 {
        let error = device_count().unwrap_err().to_string();
        assert!(
            error.contains("CUDA_ERROR_SYSTEM_NOT_READY (802)"),
            "{error}"
        );
        assert!(!is_initialized());
    }
    assert_eq!(device_count().unwrap(), 1);
    assert!(is_initialized());
}

#[test]
fn a_driver_that_is_not_ready_is_asked_again() {
    for driver in FakeDriver::each() {
        let driver = driver.with("NOT_READY_CALLS", 2);
        driver.run_one("fake::starts::program_that_starts_early");
        driver.check();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_opens() {
    match VmmDevice::open(0) {
        Ok(_) => tell("opened"),
        Err(error) => tell(&error.to_string()),
    }
    wait();
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_device_for_one() {
    let served = Served::new(VmmDevice::open(0).unwrap());
    assert_eq!(served.report().devices[0].mode, DeviceMode::Exclusive);
    let mut client = Process::start("fake::starts::program_that_opens", &[]);
    let said = client.hear();
    assert!(said.contains("EXCLUSIVE_PROCESS"), "{said}");
    assert!(said.contains("--compute-mode=DEFAULT"), "{said}");
}

#[test]
fn a_device_for_one_process_says_so_to_the_others() {
    for driver in FakeDriver::each() {
        let driver = driver.with("COMPUTE_MODE", 3);
        driver.run_one("fake::starts::server_of_a_device_for_one");
        driver.check();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_of_mps() {
    let mode = VmmDevice::open(0).unwrap().info().unwrap().mode;
    assert_eq!(mode, DeviceMode::Mps);
    assert!(mode.trouble().unwrap().contains("CUDA_MPS_PIPE_DIRECTORY"));
}

#[test]
fn a_client_of_mps_is_told_that_it_is_one() {
    for driver in FakeDriver::each() {
        let driver = driver.with("MPS", 1);
        driver.run_one("fake::starts::client_of_mps");
        driver.check();
    }
}

/// A device with room for one model, whose client is killed, and a load at once.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_of_a_killed_client() {
    let config = ServerConfig {
        memory_patience: LONG,
        ..mirror::config(tetris_gpu_server::Limits::default())
    };
    let served = Served::with(VmmDevice::open(0).unwrap(), &config);
    let mut killed = served.client("fake::served::client_by_descriptor", &[]);
    assert_eq!(killed.hear(), "as it should be");
    killed.kill();
    let other = served.publish(&["e", "f", "g", "h"]);
    served.load_within(&other, LONG).unwrap();
    assert!(served.counters().retried_chunks > 0);
}

#[test]
fn memory_of_a_killed_client_that_comes_late_is_waited_for() {
    // Longer than the server takes to ask for memory, also on a busy machine.
    let driver = FakeDriver::new()
        .with("MEMORY_MIB", 20)
        .with("DEATH_MS", 3000);
    driver.run_one("fake::starts::server_of_a_killed_client");
    driver.check();
}
