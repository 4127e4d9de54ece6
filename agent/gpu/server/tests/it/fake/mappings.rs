//! Chunks that a thread maps after the model was granted.

use std::time::{Duration, Instant};

use tetris_gpu_client::ClientError;
use tetris_gpu_device::cuda::VmmDevice;
use tetris_gpu_server::Limits;

use crate::fake::served::{NAMES, Served, acquire, check};
use crate::fake_driver::FakeDriver;
use crate::mirror::{self, DEVICE, LONG, eventually};

/// Milliseconds that the driver takes to map a chunk.
const MAP_MS: i32 = 100;
/// Number of chunks of the model: two objects do not fit into one.
const CHUNKS: usize = NAMES.len();

/// A model whose objects lie in a chunk each, which is on the device.
fn resident() -> Served<VmmDevice> {
    let served = Served::with(
        VmmDevice::open(0).unwrap(),
        &mirror::config(Limits::default()),
    );
    drop(served.load().unwrap());
    eventually("it is released", || served.server.connections() == 0);
    served
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_that_does_not_wait_for_mappings() {
    let served = resident();
    let begun = Instant::now();
    let acquired_model =
        acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    let acquired = begun.elapsed();
    let last = served.model.last().unwrap();
    let ready = acquired_model.is_ready(&last.id).unwrap();
    assert!(!ready, "it is not mapped {acquired:?} after the request");
    assert!(matches!(
        acquired_model.wait(&last.id, Duration::ZERO),
        Err(ClientError::TimedOut { .. })
    ));
    assert!(acquired_model.is_held());
    acquired_model.wait_mapped(&last.id).unwrap();
    assert!(acquired_model.is_ready(&last.id).unwrap());
    acquired_model.wait_all(LONG).unwrap();
    check(&acquired_model);
    acquired_model.release().unwrap();
    // One that ends before it is mapped.
    let second = acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    second.release().unwrap();
    let third = acquire(&served.socket, &served.model, VmmDevice::open(0).unwrap()).unwrap();
    drop(third);
    eventually("nothing is held", || {
        served.server.usage(DEVICE).unwrap().held_bytes == 0
    });
}

#[test]
fn a_model_is_granted_before_it_is_mapped() {
    for driver in FakeDriver::each() {
        let driver = driver.with("MAP_MS", MAP_MS);
        driver.run_one("fake::mappings::program_that_does_not_wait_for_mappings");
        driver.check();
    }
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn program_whose_mapping_fails() {
    let served = resident();
    let device = || VmmDevice::open(0).unwrap();
    let model = acquire(&served.socket, &served.model, device()).unwrap();
    let failed = model.wait_all(LONG).unwrap_err();
    assert!(matches!(failed, ClientError::Mapping(_)), "{failed}");
    assert!(failed.to_string().contains("(800)"), "{failed}");
    assert!(!model.is_held(), "nobody else may use it");
    let last = served.model.last().unwrap();
    assert!(model.wait(&last.id, LONG).is_err() && model.read(&last.id, LONG).is_err());
    assert!(model.release().is_ok());
    check(&served.load().unwrap());
}

#[test]
fn a_mapping_that_fails_is_told_and_leaves_nothing() {
    for driver in FakeDriver::each() {
        // The second chunk of the second load.
        let driver = driver.failing(&format!(
            "cuMemImportFromShareableHandle:800:{}:1",
            CHUNKS + 2
        ));
        driver.run_one("fake::mappings::program_whose_mapping_fails");
        driver.check();
    }
}
