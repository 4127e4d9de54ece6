//! Memory that outlives a killed server, and a server that outlives a failed call.

use std::path::PathBuf;

use tetris_gpu_client::{ClientError, settle_unmapping};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_device::cuda::VmmDevice;

use crate::fake::every_call;
use crate::fake::served::{KIB, NAMES, OBJECTS, SOCKET, Served, total};
use crate::fake_driver::FakeDriver;
use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::{LONG, content, eventually};

pub const FOLDER: &str = "TETRIS_MIRROR_FOLDER";

/// Serves in a folder that another process created, until it is killed.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_to_be_killed() {
    let folder = PathBuf::from(variable(FOLDER));
    let served = Served::in_folder(VmmDevice::open(0).unwrap(), &folder).unwrap();
    tell(&served.objects());
    wait();
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn clients_without_a_server() {
    let device = VmmDevice::open(0).unwrap();
    let free = || device.info().unwrap().free_bytes;
    let before = free();
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().display().to_string();
    let mut server = Process::start("fake::outlives::server_to_be_killed", &[(FOLDER, path)]);
    let environment = [
        (SOCKET, folder.path().join("gpu").display().to_string()),
        (OBJECTS, server.hear()),
    ];
    let mut client = Process::start("fake::served::client_by_descriptor", &environment);
    assert_eq!(client.hear(), "as it should be");
    let taken = before - free();
    assert!(taken >= total(), "{taken}");
    server.kill();
    client.go_on();
    // The client still maps it when it reports, and until it has received the next line.
    assert_eq!(client.hear(), "as it was");
    drop(client);
    eventually("the last client's end frees it", || free() == before);
}

#[test]
fn a_server_that_is_killed_leaves_clients_their_memory() {
    for driver in FakeDriver::each() {
        driver.run_one("fake::outlives::clients_without_a_server");
        driver.check();
    }
}

/// Loads until it succeeds, that is, until the driver has failed as often as requested.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn server_with_a_driver_that_fails_once() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let served = VmmDevice::open(0).map(|device| Served::in_folder(device, folder.path()));
    let Ok(Ok(served)) = served else {
        println!("does not start");
        return;
    };
    let outcomes = (0..3).map(|_| {
        let outcome = served.load();
        if let Ok(model) = &outcome
            && let Ok(found) = model.read(&served.model[0].id, LONG)
        {
            assert!(found == content(NAMES[0], KIB), "no error and other bytes");
        }
        outcome.map(drop)
    });
    let outcomes: Vec<_> = outcomes.collect();
    println!("{outcomes:?}");
    let timed_out =
        |outcome: &Result<(), ClientError>| matches!(outcome, Err(ClientError::TimedOut { .. }));
    assert!(!outcomes.iter().any(timed_out));
    assert!(outcomes[2].is_ok(), "the driver works again");
    // What could not be unmapped at once is tried again.
    settle_unmapping();
}

/// The occurrence `at` of the call fails.
fn loads_after_failure(call: &str, at: u32, driver: FakeDriver) {
    let fail = format!("{call}:999:{at}:1");
    let driver = driver.failing(&fail).with("DELAY_US", 0);
    let said = driver.run_one("fake::outlives::server_with_a_driver_that_fails_once");
    assert_eq!(driver.remembers("misuse"), "", "{call} {at}: {said}");
    if !every_call::CLEAN_UP.contains(&call) {
        assert_eq!(driver.remembers("leaks"), "", "{call} {at}: {said}");
    }
}

#[test]
fn a_server_loads_after_a_call_that_failed() {
    for call in every_call::OTHERS.iter().chain(&every_call::CLEAN_UP) {
        for at in 1..=3 {
            loads_after_failure(call, at, FakeDriver::new());
        }
        loads_after_failure(call, 2, FakeDriver::unkind());
    }
}
