//! The conformance rules on real devices. On a machine with a GPU:
//!
//!     cargo test -p tetris-gpu-server --test it -- --ignored --nocapture cuda_
//!
//! `TETRIS_CUDA_DEVICE` chooses the device (default 0). Without a GPU the same tests run with the
//! fake driver (`fake-driver/README.md`).

#![allow(
    clippy::print_stdout,
    reason = "tests that need a GPU print their findings"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::conformance;
use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice, device_count};
use tetris_gpu_device::host::HostDevice;
use tetris_gpu_device::{DeviceMemory, MemoryError, Protection};
use tetris_gpu_server::residency::TenantId;
use tetris_gpu_server::{Limits, ServedDevice, Server};
use tetris_store_layout::{CreateOptions, ManifestId, Store};

use crate::fake_driver::FakeDriver;
use crate::mirror::process::{Process, tell, variable, wait};
use crate::mirror::{self, DEVICE, LONG, MIB, content, manifest, publish};
use crate::support;

pub fn number() -> u32 {
    let chosen = std::env::var("TETRIS_CUDA_DEVICE").ok();
    chosen.map_or(0, |number| number.parse().unwrap())
}

#[test]
fn a_machine_without_a_driver_says_so_once_and_clearly() {
    let count = match device_count() {
        Ok(count) => {
            println!(
                "SKIPPED: a_machine_without_a_driver_says_so_once_and_clearly: {count} devices here"
            );
            return;
        }
        Err(error) => error,
    };
    assert!(matches!(count, MemoryError::NoDriver { .. }), "{count}");
    let text = count.to_string();
    assert!(text.starts_with("no usable CUDA driver: "), "{text}");
    assert!(text.contains("host memory"), "the alternative: {text}");
    // Every function gives the same answer, without a panic.
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
        support::ask("cuda::peer_by_descriptor", exported, bytes)
    })
    .unwrap();
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_legacy_handles_conform() {
    let device = IpcDevice::open(number()).unwrap();
    println!("{:?}\n{:?}", device.info().unwrap(), device.capabilities());
    conformance::check(&device, &mut |exported, bytes| {
        support::ask("cuda::peer_by_handle", exported, bytes)
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
fn cuda_pages_of_the_store_reach_the_device_by_legacy_handles() {
    support::store_pages_reach_the_device(&IpcDevice::open(number()).unwrap());
}

/// A write through a read-only mapping fails in the writing process, and changes nothing.
#[test]
#[ignore = "needs a GPU"]
fn cuda_read_only_mappings_stop_writes() {
    let device = VmmDevice::open(number()).unwrap();
    let bytes = device.capabilities().granule_bytes;
    let chunk = device.create(bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadWrite).unwrap();
    device.overwrite(&mapping, 1).unwrap();
    let mut child = support::start("cuda::writer", device.export(&chunk).unwrap(), bytes);
    let answer = support::answer(&mut child).unwrap();
    println!("{answer}");
    child.wait().unwrap();
    let mut bytes_there = vec![0; bytes as usize];
    device.read_back(&mapping, 0, &mut bytes_there).unwrap();
    let expected = if answer == "not held" { 2 } else { 1 };
    assert!(bytes_there.iter().all(|byte| *byte == expected), "{answer}");
}

/// Maps the inherited chunk read-only, and writes to it.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn writer() {
    let device = VmmDevice::open(number()).unwrap();
    let (exported, bytes) = support::inherited();
    let chunk = device.import(exported, bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = device.map(range, &chunk, Protection::ReadOnly).unwrap();
    let written = device.overwrite(&mapping, 2);
    if mapping.is_held() {
        tell(&format!("refused: {}", written.unwrap_err()));
    } else {
        written.unwrap();
        tell("not held");
    }
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

/// The model of the tests with a server: some 100 MB in chunks of 4 MiB.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const KIB: usize = 8000;
const SOCKET: &str = "TETRIS_MIRROR_SOCKET";
const MANIFESTS: &str = "TETRIS_MIRROR_MANIFESTS";

/// Serves a model to three processes, one of which is killed: all share one copy with the same
/// bytes.
fn processes_hold_one_copy<D: DeviceMemory + 'static>(device: D, client: &str) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = directory.path().join("store");
    let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    let objects = publish(&store, &NAMES, KIB);
    let manifests = objects
        .chunks(1)
        .map(|entry| manifest(&store, entry).to_string());
    let manifests: Vec<_> = manifests.collect();
    let served = ServedDevice {
        id: DEVICE,
        device: Arc::new(device),
        capacity_bytes: 512 * MIB,
    };
    let server = Server::start(vec![served], &mirror::config(Limits::default())).unwrap();
    let socket = directory.path().join("gpu");
    server.serve(TenantId(0), store, None, &socket).unwrap();
    let environment = [
        (SOCKET, socket.display().to_string()),
        (MANIFESTS, manifests.join(",")),
    ];
    let start = || Process::start(client, &environment);
    let mut clients = [start(), start(), start()];
    for client in &mut clients {
        println!("{}", client.hear());
    }
    let usage = server.usage(DEVICE).unwrap();
    let model = (NAMES.len() * KIB * 1024) as u64;
    assert_eq!((usage.held_bytes, usage.held_models), (model, 1));
    println!("{:?}", server.counters());
    let [killed, mut one, mut other] = clients;
    killed.kill();
    for client in [&mut one, &mut other] {
        client.go_on();
        assert_eq!(client.hear(), "as it was");
    }
}

/// Acquires the model and checks it, now and at each request.
fn client_of_a_server<D: DeviceMemory>(device: D) {
    let socket = PathBuf::from(variable(SOCKET));
    let ids: Vec<ManifestId> = variable(MANIFESTS)
        .split(',')
        .map(|id| id.parse().unwrap())
        .collect();
    let start = Instant::now();
    let client = Client::connect(&socket, D::KIND, LONG).unwrap();
    let wanted = Wanted::new(WantedModel::Manifests(ids));
    let model = client.acquire(Arc::new(device), &wanted, &mut |_| {});
    let model = model.unwrap();
    let mapped = start.elapsed();
    model.wait_all(LONG).unwrap();
    let there = start.elapsed();
    let check = || {
        for (object, name) in model.objects().iter().zip(NAMES) {
            assert!(model.read(&object.id, LONG).unwrap() == content(name, KIB));
        }
    };
    check();
    tell(&format!("mapped after {mapped:?}, there after {there:?}"));
    wait();
    check();
    tell("as it was");
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_processes_hold_one_copy_by_descriptors() {
    let device = VmmDevice::open(number()).unwrap();
    processes_hold_one_copy(device, "cuda::client_by_descriptor");
}

#[test]
#[ignore = "needs a GPU"]
fn cuda_processes_hold_one_copy_by_legacy_handles() {
    let device = IpcDevice::open(number()).unwrap();
    processes_hold_one_copy(device, "cuda::client_by_handle");
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_descriptor() {
    client_of_a_server(VmmDevice::open(number()).unwrap());
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_by_handle() {
    client_of_a_server(IpcDevice::open(number()).unwrap());
}

/// Runs the test of the two above on the simulated device, so that it is correct when a GPU is
/// available.
#[test]
fn processes_hold_one_copy_in_the_simulated_device() {
    processes_hold_one_copy(
        HostDevice::new(512 * MIB),
        "cuda::client_of_the_simulated_device",
    );
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn client_of_the_simulated_device() {
    client_of_a_server(HostDevice::new(0));
}

/// Runs the tests of this file with the fake driver. They cover the order of the calls, not the
/// behavior of a GPU.
fn with_the_fake_driver(options: &[(&str, i32)]) -> String {
    let driver = options
        .iter()
        .fold(FakeDriver::new(), |driver, (name, value)| {
            driver.with(name, *value)
        });
    let said = driver.run(&["cuda::cuda_"]);
    driver.check();
    said
}

#[test]
fn the_tests_for_gpus_pass_with_the_fake_driver() {
    let said = with_the_fake_driver(&[]);
    assert!(said.contains("not registered: "), "{said}");
    // The driver accepts them as the server maps them, if this user may open objects for writing.
    let way = "the server's way: ";
    let opened = said.contains("(Registrable)");
    let expected = if opened { "registered" } else { "refused" };
    assert!(said.contains(&format!("{way}{expected}")), "{said}");
    assert!(said.contains("refused: "), "{said}");
}

#[test]
fn the_tests_for_gpus_pass_where_read_only_pages_can_be_registered() {
    let said = with_the_fake_driver(&[("READ_ONLY_REGISTER", 1), ("DELAY_US", 0)]);
    assert!(!said.contains("not registered: "), "{said}");
}

/// No copy runs before a wait for it, so a reader that does not wait finds other bytes.
#[test]
fn the_tests_for_gpus_pass_where_copies_come_late() {
    with_the_fake_driver(&[("DELAY_US", -1)]);
}

/// Calls take time, other programs use memory, and the memory of the dead comes back late.
#[test]
fn the_tests_for_gpus_pass_with_an_unkind_driver() {
    let driver = FakeDriver::unkind();
    driver.run(&["cuda::cuda_"]);
    driver.check();
}

/// Devices 0 and 1 are not peers, chunks share blocks with others, and the driver has no read-only
/// mappings.
#[test]
fn the_tests_for_gpus_pass_where_the_driver_can_less() {
    let options = [("READ_ONLY_ACCESS", 0), ("BLOCK_MIB", 16), ("DEVICES", 2)];
    let said = with_the_fake_driver(&options);
    assert!(said.contains("not held"), "{said}");
}
