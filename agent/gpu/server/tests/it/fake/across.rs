//! Copies between two devices with the fake driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conformance::check_pair;
use tetris_gpu_client::{Client, Wanted, WantedModel};
use tetris_gpu_device::cuda::{IpcDevice, VmmDevice};
use tetris_gpu_device::{DeviceMemory, MemoryError};
use tetris_gpu_server::residency::{DeviceId, TenantId};
use tetris_gpu_server::{DeviceLinks, Limits, ServedDevice, Server};
use tetris_store_layout::{CreateOptions, Store};

use crate::fake_driver::FakeDriver;
use crate::mirror::{self, LONG, content, eventually};

const NAMES: [&str; 3] = ["a", "b", "c"];
const KIB: usize = 3000;

#[test]
#[ignore = "other tests run it in a process of its own"]
fn linked_devices_conform() {
    let devices = [0, 1].map(|number| VmmDevice::open(number).unwrap());
    assert!(check_pair(&devices[1], &devices[0]).unwrap());
    assert!(!devices[0].is_linked(&devices[0]).unwrap(), "itself");
}

#[test]
#[ignore = "other tests run it in a process of its own"]
fn devices_without_a_link_conform() {
    let devices = [0, 1].map(|number| VmmDevice::open(number).unwrap());
    assert!(!check_pair(&devices[1], &devices[0]).unwrap());
    let devices = [0, 1].map(|number| IpcDevice::open(number).unwrap());
    assert!(!check_pair(&devices[1], &devices[0]).unwrap());
}

#[test]
fn devices_copy_to_each_other_where_the_driver_joins_them() {
    for driver in FakeDriver::each() {
        let driver = driver.with("DEVICES", 2).with("PEER_ACCESS", 1);
        driver.run_one("fake::across::linked_devices_conform");
        driver.check();
    }
    // Without read-only access the other device gets the right to write.
    let driver = FakeDriver::new().with("DEVICES", 2).with("PEER_ACCESS", 1);
    let driver = driver.with("READ_ONLY_ACCESS", 0);
    driver.run_one("fake::across::linked_devices_conform");
    driver.check();
    let driver = FakeDriver::new().with("DEVICES", 2);
    driver.run_one("fake::across::devices_without_a_link_conform");
    driver.check();
}

/// A model goes to the second device over the link, as far as the driver lets it.
#[test]
#[ignore = "other tests run it in a process of its own"]
fn a_model_goes_to_the_second_device() -> Result<(), MemoryError> {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let root = directory.path().join("store");
    let store = Arc::new(Store::create(root, &CreateOptions::default()).unwrap());
    let devices = [VmmDevice::open(0)?, VmmDevice::open(1)?];
    let served = (0u32..).zip(&devices).map(|(number, device)| ServedDevice {
        id: DeviceId(number),
        device: Arc::new(device.clone()),
        capacity_bytes: u64::MAX,
    });
    let config = mirror::config(Limits::default());
    let server = Server::start(served.collect(), &config).unwrap();
    let links = DeviceLinks {
        from_host: Some(25),
        switch: None,
        from_devices: BTreeMap::from([(DeviceId(0), Some(100))]),
    };
    server.set_links(DeviceId(1), links);
    let socket = directory.path().join("gpu");
    server
        .serve(TenantId(0), Arc::clone(&store), None, &socket)
        .unwrap();
    let objects = mirror::publish(&store, &NAMES, KIB);
    let load = |device: &VmmDevice| {
        let client = Client::connect(&socket, VmmDevice::KIND, LONG).unwrap();
        let wanted = Wanted::new(WantedModel::Objects(objects.clone()));
        let model = client
            .acquire(Arc::new(device.clone()), &wanted, &mut |_| {})
            .unwrap();
        for (object, name) in objects.iter().zip(NAMES) {
            assert!(model.read(&object.id, LONG).unwrap() == content(name, KIB));
        }
        model
    };
    let first = load(&devices[0]);
    let second = load(&devices[1]);
    let bytes = (NAMES.len() * KIB * 1024) as u64;
    let counted = || {
        let counters = server.counters();
        counters.across_bytes + counters.staged_bytes + counters.direct_bytes
    };
    eventually("both loads are counted", || counted() == 2 * bytes);
    let counters = server.counters();
    println!(
        "across {} of {bytes}, {} failed",
        counters.across_bytes, counters.failed_across
    );
    assert_eq!(counters.failed_transfers, 0);
    second.release().unwrap();
    first.release().unwrap();
    Ok(())
}

#[test]
fn a_model_comes_over_the_link() {
    let bytes = NAMES.len() * KIB * 1024;
    for driver in FakeDriver::each() {
        let driver = driver.with("DEVICES", 2).with("PEER_ACCESS", 1);
        let said = driver.run_one("fake::across::a_model_goes_to_the_second_device");
        assert!(
            said.contains(&format!("across {bytes} of {bytes}, 0 failed")),
            "{said}"
        );
        driver.check();
    }
}

#[test]
fn a_model_comes_from_the_host_where_the_link_fails() {
    for call in ["cuMemcpyDtoDAsync_v2:999:2", "cuDeviceCanAccessPeer:999:1"] {
        let driver = FakeDriver::new().with("DEVICES", 2).with("PEER_ACCESS", 1);
        let driver = driver.failing(call);
        let said = driver.run_one("fake::across::a_model_goes_to_the_second_device");
        assert!(
            said.contains("across 0 of") && said.contains(", 1 failed"),
            "{call}: {said}"
        );
        assert_eq!(driver.remembers("misuse"), "", "{call}");
    }
    // A driver that joins no devices.
    let driver = FakeDriver::new().with("DEVICES", 2);
    let said = driver.run_one("fake::across::a_model_goes_to_the_second_device");
    assert!(said.contains("across 0 of"), "{said}");
    driver.check();
}
